"""A replay of one side before a trial: what it saves, what it may not decide, and that a kill repeats nothing."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.event import Event, Profiled, Screened, TrialEnded, TrialStarted
from steptune.core.forecast import Forecast
from steptune.core.framework import SideReplay, SideTimes
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, Restart, Settings
from steptune.core.phase import Role
from steptune.core.trial import TrialState
from steptune.store.journal import Journal, create_journal, read_journal
from steptune.store.journal_lines import Entry
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, PACKING, PLACEBO, FakeKnob, FakePair
from steptune.tune.screen import UNPRICED_LOSS_CHANCE, is_worth, loss_chance
from steptune.tune.session import TuneOptions, resume_session, start_session

BOTH = frozenset({Role.TRAINER, Role.ROLLOUT})
UNPRICED_SLOW = FakeKnob(name="kernel", side=Role.TRAINER, factors={"a": 1.0, "b": 1.2}, unpriced=frozenset({"b"}))
UNPRICED_FAST = FakeKnob(name="kernel", side=Role.TRAINER, factors={"a": 1.0, "b": 0.5}, unpriced=frozenset({"b"}))


def session(
    root: Path,
    knobs: tuple[FakeKnob, ...],
    *,
    sides: frozenset[Role] = BOTH,
    start_up_s: float = 2.0,
    pairs: tuple[FakePair, ...] = (),
    keeps_worker: bool = False,
    seed: int = 1,
) -> Ran:
    framework = FakeFramework(
        knob_table=knobs, sides=sides, start_up_s=start_up_s, pairs=pairs, keeps_worker=keeps_worker, seed=seed
    )
    path = start_session(job_of(), framework, TuneOptions(root=root), SteppingClock(), quiet)
    return Ran(path, framework)


def screenings(ran: Ran) -> list[Screened]:
    return [event for event in ran.events if isinstance(event, Screened)]


def test_an_unpriced_lever_that_its_own_side_shows_to_be_slow_launches_nothing(tmp_path: Path) -> None:
    ran = session(tmp_path / "a", (UNPRICED_SLOW,))
    (screened,) = screenings(ran)
    assert not screened.goes_on
    (ended,) = ran.trials
    assert ended.trial.state is TrialState.STOPPED
    assert ended.trial.arms == ()
    assert ended.trial.cause.startswith("trainer-only replay: no gain worth having")
    assert ended.outcome is Outcome.REJECT
    assert ended.ratio_to_baseline is not None  # the residuals learn from it
    assert ended.ratio_to_baseline.value == pytest.approx(1.08, abs=0.01)  # 0.6 + 0.4 x 1.2
    assert ran.problems() == []


def test_it_costs_less_than_a_trial_and_decides_the_same(tmp_path: Path) -> None:
    with_it, without = (
        session(tmp_path / str(number), (UNPRICED_SLOW,), sides=sides)
        for number, sides in enumerate((BOTH, frozenset()))
    )
    assert with_it.framework.spent_s < without.framework.spent_s
    assert with_it.decision.settings == without.decision.settings
    assert screenings(without) == []


def test_a_trial_costs_all_that_was_spent_from_its_start_to_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = FakeFramework(knob_table=(UNPRICED_FAST,), sides=BOTH, start_up_s=2.0)
    monkeypatch.setattr(time, "monotonic", lambda: framework.spent_s)
    start = datetime(2030, 1, 1, tzinfo=UTC)
    path = start_session(
        job_of(),
        framework,
        TuneOptions(root=tmp_path),
        lambda: start + timedelta(seconds=framework.spent_s),
        quiet,
    )
    entries = read_journal(path / "journal.jsonl")
    begun, ended = (next(e for e in entries if isinstance(e.body, kind)) for kind in (TrialStarted, TrialEnded))
    passed = datetime.fromisoformat(ended.time) - datetime.fromisoformat(begun.time)
    assert isinstance(ended.body, TrialEnded)
    assert ended.body.trial.cost_wall_s == pytest.approx(passed.total_seconds(), abs=1e-3)


def test_a_lever_that_its_own_side_shows_to_be_fast_is_tried_whole(tmp_path: Path) -> None:
    ran = session(tmp_path, (UNPRICED_FAST,))
    (screened,) = screenings(ran)
    assert screened.goes_on
    assert ran.trials[0].trial.arms
    assert ran.decision.settings == {"kernel": "b"}
    assert ran.problems() == []


def test_a_change_of_both_sides_is_not_screened(tmp_path: Path) -> None:
    ran = session(tmp_path, (PACKING, COMPACTION))
    assert screenings(ran) == []
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True}


def test_after_a_gain_of_its_side_the_candidate_alone_runs_a_few_whole_steps(tmp_path: Path) -> None:
    ran = session(tmp_path, (UNPRICED_FAST,), seed=2)
    (ended,) = ran.trials
    incumbent, candidate = (arm.observations for arm in ended.trial.arms)
    assert [step.step for step in candidate] == [step.step for step in incumbent] == [2, 3, 4, 5]
    known = next(event for event in ran.events if isinstance(event, Profiled)).arms[0].observations
    assert all(step in known for step in incumbent)  # recorded before, not run again
    assert ended.outcome is Outcome.ADOPT
    assert ended.reasons[0].startswith("a lead, for the confirmation to prove: a replay of its side")
    assert ended.ratio_to_baseline == screenings(ran)[0].ratio
    assert {v.guard for v in ended.verdicts} >= {"same_work", "memory", "mismatch", "entropy", "update_parity"}


def test_whole_steps_that_do_not_bear_the_replay_out_bring_both_arms_in_turn(tmp_path: Path) -> None:
    # twice the rollout, which a replay of the trainer's side cannot see: 1.2 + 0.2 s instead of 1 s
    hidden = FakePair(first=("kernel", "b"), second=("kernel", "b"), side=Role.ROLLOUT, factor=2.0)
    ran = session(tmp_path, (UNPRICED_FAST,), pairs=(hidden,))
    (ended,) = ran.trials
    assert screenings(ran)[0].goes_on
    assert ended.outcome is Outcome.REJECT
    assert ended.trial.ratio is not None
    assert ended.trial.ratio.value == pytest.approx(1.4, abs=0.02)
    assert (ended.trial.ratio.n or 0) > 1
    assert ran.problems() == []


def test_a_precision_change_is_watched_for_all_steps_of_the_plan(tmp_path: Path) -> None:
    lossy = FakeKnob(
        name="kernel",
        side=Role.ROLLOUT,
        factors={"a": 1.0, "b": 0.5},
        unpriced=frozenset({"b"}),
        effect=Effect.PRECISION,
    )
    ran = session(tmp_path, (lossy,), start_up_s=0.5)
    steps = {arm.label: len(arm.observations) for arm in ran.trials[0].trial.arms}
    # four pairs of three steps at least; its speed is clear after two, and the rest it runs alone
    assert steps["candidate"] + steps["watched"] >= 12


def test_a_replay_needs_no_start_up_where_the_probes_process_is_still_there(tmp_path: Path) -> None:
    cold, warm = (
        session(tmp_path / str(kept), (UNPRICED_SLOW,), start_up_s=5.0, keeps_worker=kept) for kept in (False, True)
    )
    assert cold.framework.spent_on["replay's start-up"] == 5.0
    assert warm.framework.spent_on["replay's start-up"] == 0.0


def test_a_side_that_cannot_be_replayed_is_tried_whole(tmp_path: Path) -> None:
    ran = session(tmp_path, (UNPRICED_SLOW,), sides=frozenset({Role.ROLLOUT}))
    assert screenings(ran) == []


def test_a_replay_that_fails_settles_nothing(tmp_path: Path) -> None:
    dies = FakeKnob(
        name="kernel",
        side=Role.TRAINER,
        factors={"a": 1.0, "b": 0.5},
        unpriced=frozenset({"b"}),
        fails_with={"b": "oom"},
    )
    ran = session(tmp_path, (dies,))
    (screened,) = screenings(ran)
    assert screened.goes_on
    assert screened.times is None
    assert "MemoryError" in screened.problem
    assert ran.trials[0].trial.state is TrialState.OUT_OF_MEMORY
    assert ran.problems() == []


def test_a_replay_is_not_repeated_by_the_process_that_takes_over(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    framework = FakeFramework(knob_table=(UNPRICED_FAST,), sides=BOTH, start_up_s=2.0)
    whole = session(tmp_path / "whole", (UNPRICED_FAST,))
    in_trial = _steps_before_trial(tmp_path / "count")
    steps = 0

    def on_step() -> None:
        nonlocal steps
        steps += 1
        if steps == in_trial + 1:
            raise KilledError

    framework.on_step = on_step
    with pytest.raises(KilledError):
        start_session(job_of(), framework, TuneOptions(root=tmp_path / "runs"), SteppingClock(), quiet)
    (folder,) = (tmp_path / "runs").iterdir()
    framework.on_step = lambda: None
    resume_session(folder, framework, TuneOptions(root=tmp_path / "runs"), SteppingClock(), quiet)
    ran = Ran(folder, framework)
    assert len(screenings(ran)) == 1
    assert ran.decision.settings == whole.decision.settings
    assert ran.problems() == []


def _steps_before_trial(root: Path) -> int:
    """Return the virtual steps until the replay of the first trial is over, warm-up included."""
    counted, at_replay = 0, list[int]()

    def on_step() -> None:
        nonlocal counted
        counted += 1

    framework = FakeFramework(knob_table=(UNPRICED_FAST,), sides=BOTH, start_up_s=2.0, on_step=on_step)

    class Noting:
        """Lets the framework through and notes when a replay is over."""

        def __getattr__(self, name: str) -> object:
            return getattr(framework, name)

        def replayable_sides(self, job: JobSpec, settings: Settings) -> frozenset[Role]:
            return framework.replayable_sides(job, settings)

        def replay_side(self, job: JobSpec, wanted: SideReplay, out_dir: Path) -> SideTimes:
            made = framework.replay_side(job, wanted, out_dir)
            at_replay.append(counted)
            return made

        def is_ready_to_replay(self) -> bool:
            return framework.is_ready_to_replay()

    start_session(job_of(), Noting(), TuneOptions(root=root), SteppingClock(), quiet)  # type: ignore[arg-type]
    return at_replay[0]


def forged(ran: Ran, kind: type[Event], change: Callable[[Event], Event]) -> list[str]:
    events = [change(event) if isinstance(event, kind) else event for event in ran.events]
    for name in ("journal.jsonl", "journal-head.json"):
        (ran.path / name).unlink()
    create_journal(ran.path / "journal.jsonl")
    made = Journal(ran.path / "journal.jsonl", SteppingClock(), Entry, [], 0)
    for event in events:
        made.append(event)
    return ran.problems()


def test_verify_finds_a_replay_whose_times_say_otherwise(tmp_path: Path) -> None:
    ran = session(tmp_path, (UNPRICED_SLOW,))

    def faster(event: Event) -> Event:
        assert isinstance(event, Screened)
        assert event.times is not None
        halved = tuple(seconds / 2 for seconds in event.times.candidate_s)
        return event.model_copy(update={"times": event.times.model_copy(update={"candidate_s": halved})})

    assert any("does not follow from its times" in problem for problem in forged(ran, Screened, faster))


def test_verify_finds_a_trial_that_went_on_after_a_replay_that_ended_it(tmp_path: Path) -> None:
    ran = session(tmp_path, (UNPRICED_SLOW,))

    def other_cause(event: Event) -> Event:
        assert isinstance(event, TrialEnded)
        return event.model_copy(update={"trial": event.trial.model_copy(update={"cause": "something else"})})

    assert any("although its replay had ended it" in problem for problem in forged(ran, TrialEnded, other_cause))


def forecast(low: float, value: float, high: float, refused: str | None = None) -> Forecast:
    step = Estimate(value=value, low=low, high=high, unit="x", source=Source.FORECAST)
    nothing = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)
    return Forecast(
        change=nothing,
        step_time=step,
        ratio=step,
        phases=(),
        lag=0,
        memory_fits=True,
        num_free_parameters=0,
        profile_hash="",
        refused=refused,
    )


def test_a_forecast_on_the_edge_is_lost_half_of_the_time_and_a_good_one_rarely() -> None:
    assert loss_chance(forecast(0.9, 0.98, 0.98**2 / 0.9), 0.98) == pytest.approx(0.5)
    assert loss_chance(forecast(0.78, 0.8, 0.82), 0.98) < 0.001
    assert loss_chance(forecast(0.9, 1.0, 1.1, refused="no curve"), 0.98) == UNPRICED_LOSS_CHANCE
    assert loss_chance(forecast(1.0, 1.0, math.nan), 0.98) == UNPRICED_LOSS_CHANCE


def test_a_replay_is_worth_less_than_what_it_may_save() -> None:
    assert is_worth(17.0, full=42.0, after_gain=9.0, lost=0.5)  # 17 + 4.5
    assert not is_worth(38.0, full=42.0, after_gain=9.0, lost=0.5)  # 38 + 4.5
    assert is_worth(17.0, full=42.0, after_gain=9.0, lost=0.0)  # 26: a sure gain is cheaper too


def test_a_believed_placebo_is_ended_by_its_replay(tmp_path: Path) -> None:
    ran = session(tmp_path, (PLACEBO,))
    assert not screenings(ran)[0].goes_on
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.problems() == []
