"""Phases, units and errors: the small words everything else is written in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import (
    HealthError,
    JobError,
    LimitError,
    ReadError,
    StepTuneError,
    StoreError,
    TrialError,
    explain,
    nearest,
)
from steptune.core.phase import Phase, is_child, parent_phase
from steptune.core.trial import TrialState
from steptune.core.units import BYTES_PER_GIB, BYTES_PER_MIB, duration_text, gib, mib


@pytest.mark.parametrize("phase", list(Phase))
def test_a_phase_is_its_own_parent_and_that_of_its_children(phase: Phase) -> None:
    assert parent_phase(phase.value) is phase
    assert parent_phase(f"{phase.value}/anything/deeper") is phase
    assert not is_child(phase.value)
    assert is_child(f"{phase.value}/anything")


@pytest.mark.parametrize("name", ["", "/", "Rollout", "rollouts", "gen", "decode/rollout"])
def test_a_phase_outside_the_canon_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Phase"):
        parent_phase(name)


def test_binary_units_are_binary() -> None:
    assert BYTES_PER_GIB == 1024 * BYTES_PER_MIB == 2**30
    assert mib(3 * 2**20) == 3.0
    assert gib(2**29) == 0.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0421, "42 ms"),
        (0.999, "999 ms"),
        (0.9996, "1.00 s"),
        (1.0, "1.00 s"),
        (7.25, "7.25 s"),
        (59.996, "1 m 00 s"),
        (60.0, "1 m 00 s"),
        (203.0, "3 m 23 s"),
        (3599.6, "1 h 00 m"),
        (3600.0, "1 h 00 m"),
        (7199.0, "2 h 00 m"),
        (32400.0, "9 h 00 m"),
        (3661.0, "1 h 01 m"),
        (1e308, "1e+308 s"),
        (float("inf"), "inf s"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.floats(0, 1e6))
def test_a_duration_never_reads_sixty_of_a_smaller_unit(seconds: float) -> None:
    text = duration_text(seconds)
    assert not text.startswith(("1000 ms", "60.00 s"))
    assert " 60 " not in text
    assert not text.endswith((" 60 s", " 60 m"))


def test_the_house_sentence_has_its_four_parts() -> None:
    text = explain("`budget.max_trials` must be positive", got=0, allowed="1 or more", hint="use 6")
    assert text == "`budget.max_trials` must be positive, got 0; allowed: 1 or more; hint: use 6"


WORDS = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=4, max_size=12)


@given(WORDS)
def test_one_letter_lost_is_still_understood(word: str) -> None:
    assert nearest(word[1:] if len(word) > 4 else word, [word, "0", "1"]) == f"did you mean `{word}`?"


def test_nothing_close_lists_everything_in_order() -> None:
    assert nearest("qqq", ["beta", "alpha"]) == "use one of alpha, beta"


def test_the_closest_spelling_wins() -> None:
    assert nearest("max_trails", ["max_trials", "max_staleness", "trials"]) == "did you mean `max_trials`?"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (JobError, ValueError),
        (LimitError, ValueError),
        (ReadError, ValueError),
        (HealthError, RuntimeError),
        (TrialError, RuntimeError),
        (StoreError, RuntimeError),
    ],
)
def test_a_user_s_error_is_ours_and_the_builtin_it_refines(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, StepTuneError)
    assert issubclass(error, builtin)


def test_results_are_the_states_that_are_never_run_again() -> None:
    again = {TrialState.PLANNED, TrialState.RUNNING, TrialState.ABANDONED}
    assert {state for state in TrialState if not state.is_terminal} == again
