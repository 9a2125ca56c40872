"""Runs whole sessions on the fake framework, for the tests of `tune`, `testing` and `cli`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from steptune.core.decision import Decision
from steptune.core.event import Event, TrialEnded, Waterfall
from steptune.core.job import BudgetSpec, GuardSpec, JobSpec, KnobsSpec, LimitsSpec, Objective
from steptune.core.knob import KnobValue
from steptune.store.journal import read_journal
from steptune.store.replay import SessionState, fold
from steptune.store.run_folder import RunFolder
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import FakeKnob
from steptune.tune.session import TuneOptions, start_session
from steptune.tune.verify import verify


class SteppingClock:
    """Tells a time that moves on by a millisecond with every look at it."""

    def __init__(self) -> None:
        self.now = datetime(2025, 11, 2, 8, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


def job_of(
    *,
    limits: LimitsSpec | None = None,
    budget: BudgetSpec | None = None,
    pin: dict[str, KnobValue] | None = None,
    guard: GuardSpec | None = None,
    objective: Objective = Objective.STEP_TIME,
) -> JobSpec:
    return JobSpec(
        name="fake",
        framework="fake",
        objective=objective,
        limits=limits or LimitsSpec(),
        # steps are virtual seconds, but the budget counts real ones: it must not be what ends a search
        budget=budget or BudgetSpec(device_time_s=1e6, wall_time_s=1e6),
        guard=guard or GuardSpec(),
        knobs=KnobsSpec(pin=pin or {}),
    )


class Ran:
    """A session that is over."""

    def __init__(self, path: Path, framework: FakeFramework) -> None:
        self.path = path
        self.framework = framework

    @property
    def events(self) -> list[Event]:
        return [entry.body for entry in read_journal(self.path / "journal.jsonl")]

    @property
    def state(self) -> SessionState:
        return fold(self.events)

    @property
    def decision(self) -> Decision:
        decision = self.state.decision
        assert decision is not None
        return decision

    @property
    def trials(self) -> list[TrialEnded]:
        return list(self.state.ended)

    @property
    def waterfalls(self) -> list[Waterfall]:
        return list(self.state.waterfalls)

    def moves_tried(self) -> list[dict[str, KnobValue]]:
        return [{move.knob: move.new for move in event.trial.change.moves} for event in self.trials]

    def problems(self) -> list[str]:
        return verify(RunFolder.open(self.path), self.framework.knobs(job_of()))


def run_session(
    root: Path,
    knobs: tuple[FakeKnob, ...],
    *,
    seed: int = 1,
    noise: float = 0.01,
    job: JobSpec | None = None,
    learns: bool = True,
    on_step: Callable[[], None] = lambda: None,
    is_advice_only: bool = False,
) -> Ran:
    framework = FakeFramework(knob_table=knobs, seed=seed, noise=noise, learns=learns, on_step=on_step)
    path = start_session(
        job or job_of(), framework, TuneOptions(root=root, is_advice_only=is_advice_only), SteppingClock(), quiet
    )
    return Ran(path, framework)


def quiet(_line: str) -> None:
    """Say nothing."""
