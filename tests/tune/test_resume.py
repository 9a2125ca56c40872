"""What a resumed session must not forget: what was spent, and which winner was confirmed."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet, run_session

from steptune.core.decision import Outcome
from steptune.core.job import BudgetSpec, JobSpec
from steptune.store.journal import Clock
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, CRASHING, LAZY_ANSWERS, PACKING, FakeKnob
from steptune.tune.context import Context
from steptune.tune.search import try_one
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.session import TuneOptions, resume_session, start_session
from steptune.tune.space import Space


def interrupted(
    root: Path,
    knobs: tuple[FakeKnob, ...],
    *,
    job: JobSpec | None = None,
    clock: Clock | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Path:
    """Start a session that a KeyboardInterrupt ends; return its folder."""
    framework = FakeFramework(knob_table=knobs, on_step=on_step)
    with pytest.raises(KeyboardInterrupt):
        start_session(job or job_of(), framework, TuneOptions(root=root), clock or SteppingClock(), quiet)
    (folder,) = root.glob("fake-*")
    return folder


def resumed(folder: Path, knobs: tuple[FakeKnob, ...]) -> Ran:
    framework = FakeFramework(knob_table=knobs)
    resume_session(folder, framework, TuneOptions(root=folder.parent), SteppingClock(), quiet)
    return Ran(folder, framework)


def interrupt(*_: object, **_named: object) -> None:
    raise KeyboardInterrupt


def test_trials_of_the_earlier_process_count_against_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = (PACKING, COMPACTION, CRASHING)
    job = job_of(budget=BudgetSpec(max_trials=1, device_time_s=1e6, wall_time_s=1e6))
    with monkeypatch.context() as patch:
        patch.setattr("steptune.tune.session.conclude", interrupt)
        folder = interrupted(tmp_path, knobs, job=job)
    ran = resumed(folder, knobs)
    assert len(ran.trials) == 1
    assert ran.decision.outcome is Outcome.NO_CHANGE


class SlowClock(SteppingClock):
    """Every look takes three minutes: a journal of a session that worked for long."""

    def __call__(self) -> object:  # type: ignore[override]
        self.now += timedelta(minutes=3)
        return self.now


def test_time_of_the_earlier_process_counts_against_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = (PACKING, COMPACTION)
    job = job_of(budget=BudgetSpec(wall_time_s=560, device_time_s=1e6))
    with monkeypatch.context() as patch:
        patch.setattr("steptune.tune.search.try_change", interrupt)  # the first trial is cut off
        folder = interrupted(tmp_path, knobs, job=job, clock=SlowClock())  # type: ignore[arg-type]
    ran = resumed(folder, knobs)
    assert ran.trials == []
    assert ran.decision.outcome is Outcome.NO_CHANGE


def test_a_winner_found_after_the_resume_is_confirmed_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = (PACKING, COMPACTION)

    def only_packing(context: Context, space: Space, _reserve_s: float) -> SearchState:
        """As if time had run out after a lesser change."""
        found = search_state(context.state, context.effects)
        if found.incumbent is None:
            moved = [{move.knob for move in change.moves} for change in space.proposal.changes]
            try_one(context, space, moved.index({"layout"}), found)
        return search_state(context.state, context.effects)

    with monkeypatch.context() as patch:
        patch.setattr("steptune.tune.winner.search", only_packing)
        patch.setattr("steptune.tune.winner.record_tuned_profile", interrupt)
        folder = interrupted(tmp_path, knobs)
    ran = resumed(folder, knobs)
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True}
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.state.confirmed is not None
    assert ran.state.confirmed.signature == ran.decision.change.signature
    assert ran.state.tuned is not None
    assert ran.state.tuned.settings == ran.decision.settings
    assert ran.problems() == []


def test_the_final_winner_has_a_waterfall_of_its_own_after_a_failed_reward_test(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION, LAZY_ANSWERS))
    first, second = ran.waterfalls
    assert first.rows[-1].signature == ran.state.reward_tests[0].signature
    assert second.rows[-1].signature == ran.decision.change.signature
