"""A run that somebody kills once costs neither its trial nor the session; one that is killed again has failed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet, run_session

from steptune.core.errors import KilledError, TrialError
from steptune.core.job import GuardSpec
from steptune.core.trial import TrialState
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, LAZY_ANSWERS, PACKING
from steptune.tune.once_more import once_more
from steptune.tune.session import TuneOptions, resume_session

KNOBS = (PACKING, LAZY_ANSWERS, COMPACTION)
JOB = job_of(guard=GuardSpec(reward_seeds=3, reward_steps=20))

TRIAL_STEP = 50
"""A virtual step of the first trial: the profile takes 44."""


class Accidents:
    """Kills whatever run makes one of ``steps``, counted from 1."""

    def __init__(self, *steps: int) -> None:
        self.steps, self.num_steps = steps, 0

    def __call__(self) -> None:
        self.num_steps += 1
        if self.num_steps in self.steps:
            raise KilledError("the run died with exit code -9, killed from outside")


def ran_with(root: Path, on_step: Callable[[], None]) -> Ran:
    root.mkdir()
    return run_session(root, KNOBS, job=JOB, on_step=on_step)


def answer(ran: Ran) -> tuple[object, ...]:
    """What a session says."""
    return ran.decision.outcome, ran.decision.settings, ran.moves_tried(), len(ran.state.reward_tests)


def test_an_accident_at_any_stage_changes_no_decision_and_fails_no_trial(tmp_path: Path) -> None:
    counted = Accidents()
    calm = ran_with(tmp_path / "calm", counted)
    assert calm.state.reward_tests
    assert calm.state.confirmed is not None
    spread = range(3, counted.num_steps, counted.num_steps // 5)  # profile, trials, waterfall, rewards, confirmation
    for step in spread:
        hit = ran_with(tmp_path / str(step), Accidents(step))
        assert answer(hit) == answer(calm), step
        assert all(event.trial.state is not TrialState.FAILED for event in hit.trials), step
        assert hit.problems() == []


def test_a_run_that_is_killed_again_is_a_failed_trial_and_the_search_goes_on(tmp_path: Path) -> None:
    ran = ran_with(tmp_path / "twice", Accidents(TRIAL_STEP, TRIAL_STEP + 1))
    first, *others = ran.trials
    assert first.trial.state is TrialState.FAILED
    assert "killed from outside" in first.trial.cause
    assert others
    assert ran.problems() == []


def test_a_baseline_that_is_killed_twice_ends_the_session_which_goes_on_with_a_resume(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="killed from outside"):
        ran_with(tmp_path / "ended", Accidents(3, 4))
    (folder,) = (tmp_path / "ended").glob("fake-*")
    framework = FakeFramework(knob_table=KNOBS)
    resume_session(folder, framework, TuneOptions(root=folder.parent), SteppingClock(), quiet)
    assert answer(Ran(folder, framework)) == answer(ran_with(tmp_path / "calm", lambda: None))


def test_another_error_is_no_accident() -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise TrialError("the run died with exit code 1")

    with pytest.raises(TrialError, match="exit code 1"):
        once_more(fail, quiet)
    assert len(tries) == 1
