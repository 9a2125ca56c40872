"""What a machine does to a session: clocks that jump, folders that vanish, daemons that stay."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet, run_session

from steptune.core.errors import StoreError
from steptune.core.trial import TrialState
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, PACKING
from steptune.tune.session import TuneOptions, resume_session, start_session
from steptune.tune.try_change import MAX_STARTS

KNOBS = (PACKING, COMPACTION)


class JumpingClock:
    """Jumps a year on and two back at every look: what a wrong time server does."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=365 * (self.looks % 2) - self.looks)


def at_step(number: int, act: Callable[[], None]) -> Callable[[], None]:
    left = number

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            act()

    return step


def test_a_clock_that_jumps_changes_no_decision_and_breaks_no_chain(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=KNOBS)
    path = start_session(job_of(), framework, TuneOptions(root=tmp_path / "jumping"), JumpingClock(), quiet)
    jumped, steady = Ran(path, framework), run_session(tmp_path / "steady", KNOBS)
    assert jumped.decision.settings == steady.decision.settings
    assert jumped.decision.outcome == steady.decision.outcome
    assert jumped.problems() == []


def test_a_run_folder_that_vanishes_ends_the_session_with_its_name(tmp_path: Path) -> None:
    def vanish() -> None:
        (folder,) = tmp_path.glob("fake-*")
        shutil.rmtree(folder)

    with pytest.raises(StoreError, match="no such file or folder") as caught:
        run_session(tmp_path, KNOBS, on_step=at_step(60, vanish))
    assert "fake-" in str(caught.value)
    assert "hint:" in str(caught.value)
    assert not list(tmp_path.glob("fake-*/journal.jsonl")), "an emptied folder must not look like a session"


def test_a_trial_that_takes_its_session_down_ten_times_has_failed(tmp_path: Path) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_session(tmp_path, KNOBS, on_step=at_step(40, die))
    (folder,) = tmp_path.glob("fake-*")
    for _ in range(MAX_STARTS - 1):
        with pytest.raises(KeyboardInterrupt):
            _resume(folder, on_step=die)
    ran = _resume(folder, on_step=lambda: None)
    looping, *others = ran.trials
    assert looping.trial.state is TrialState.FAILED
    assert "started 10 times and never ended" in looping.trial.cause
    assert others, "the search goes on without it"
    assert ran.problems() == []


def _resume(folder: Path, on_step: Callable[[], None]) -> Ran:
    framework = FakeFramework(knob_table=KNOBS, on_step=on_step)
    resume_session(folder, framework, TuneOptions(root=folder.parent), SteppingClock(), quiet)
    return Ran(folder, framework)


def test_leftovers_are_stopped_even_where_there_is_nothing_to_resume(tmp_path: Path) -> None:
    ran, cleaned = run_session(tmp_path, KNOBS), list[Path]()

    class Watched:
        """A framework of which only the cleaning is looked at."""

        def __init__(self) -> None:
            self.inner = FakeFramework(knob_table=KNOBS)

        def __getattr__(self, name: str) -> object:
            return cleaned.append if name == "clean_up" else getattr(self.inner, name)

    with pytest.raises(StoreError, match="the session is done"):
        resume_session(ran.path, Watched(), TuneOptions(root=tmp_path), SteppingClock(), quiet)  # type: ignore[arg-type]
    assert cleaned == [ran.path]
