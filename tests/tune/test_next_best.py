"""A fault that only the confirmation shows costs the winner, not the session: the next best that led is confirmed."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet, run_session

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.errors import TrialError
from steptune.core.estimate import Estimate, Source
from steptune.core.event import ConfirmationFailed, TrialEnded
from steptune.core.framework import LaunchSpec, Session
from steptune.core.job import BudgetSpec, CpuDevices, JobSpec
from steptune.core.knob import Effect, Restart
from steptune.core.trial import Trial, TrialState
from steptune.report.session_view import view_session
from steptune.report.stage_costs import stage_costs
from steptune.store.replay import SessionState
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import LATE_CRASH, LATE_HUNGRY, LOST_TENSOR, PACKING, SHORT_ANSWERS, FakeKnob
from steptune.tune.confirm import CONFIRM_SEED_SHIFT
from steptune.tune.context import Context
from steptune.tune.search_state import search_state
from steptune.tune.session import TuneOptions, resume_session, start_session

TRAPS = [
    (SHORT_ANSWERS, "length failed"),
    (LOST_TENSOR, "weights_arrived failed"),
    (LATE_CRASH, "the confirmation failed: failed: the run died with exit code -11"),
    (LATE_HUNGRY, "the confirmation failed: out of memory: fake: asked for 3.0 GiB"),
]
"""Knobs whose fault no trial shows, and what is said of them."""

UNPRICED = replace(LOST_TENSOR, unpriced=frozenset({"many"}))
"""Tried by itself after everything that has a price: on top of a lead."""


@pytest.mark.parametrize(("trap", "said"), TRAPS, ids=[trap.name for trap, _ in TRAPS])
def test_after_a_fault_in_the_confirmation_the_next_best_is_confirmed_and_adopted(
    trap: FakeKnob, said: str, tmp_path: Path
) -> None:
    ran = run_session(tmp_path, (PACKING, trap))
    first = ran.trials[0].trial.change
    assert {move.knob for move in first.moves} == {"layout", trap.name}, "the trap must have been tempting"
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", trap.name: next(iter(trap.factors))}
    (note,) = [reason for reason in ran.decision.reasons if reason.startswith(f"another lead, {first}, was rejected")]
    assert said in note
    signatures = [each.signature for each in ran.state.confirmations]
    assert signatures[0] == first.signature
    assert signatures[-1] == ran.decision.change.signature
    assert ran.problems() == []


def test_a_change_that_led_before_the_winner_is_confirmed_without_another_trial(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, UNPRICED))
    assert ran.moves_tried() == [{"layout": "packed"}, {"bucket": "many", "layout": "packed"}]
    assert len(ran.state.confirmations) == 2
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "bucket": "one"}
    assert ran.state.tuned is not None
    assert ran.state.tuned.settings == ran.decision.settings
    (costs,) = [stage for stage in stage_costs(view_session(ran.events)) if stage.stage == "confirmation"]
    assert costs.num_runs == 2


def test_a_budget_that_pays_for_no_other_confirmation_ends_with_the_rejection_and_says_so(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, UNPRICED))
    # trials begin while 165 steps of 1 s are left; after the confirmation fewer than the 85 of another one are
    job = job_of(budget=BudgetSpec(wall_time_s=255, device_time_s=1e6))
    job = job.model_copy(update={"devices": CpuDevices(num_cores=1)})
    path = start_session(job, framework, TuneOptions(root=tmp_path), SteppingClock(), quiet, lambda: framework.spent_s)
    ran = Ran(path, framework)
    assert len(ran.trials) == 2
    assert len(ran.state.confirmations) == 1
    assert ran.decision.outcome is Outcome.REJECT
    assert ran.decision.reasons[0].startswith("weights_arrived failed")
    assert ran.decision.reasons[-1] == (
        "the next best that led, layout: padded -> packed, was not confirmed: the budget was spent"
    )
    assert framework.spent_s <= 256
    assert ran.problems() == []


def test_where_only_the_trap_gains_its_rejection_is_the_decision(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (LATE_CRASH,))
    assert ran.decision.outcome is Outcome.REJECT
    assert ran.decision.settings == {"streams": 1}
    assert ran.decision.speedup is None
    assert ran.decision.reasons == (
        "the confirmation failed: failed: the run died with exit code -11",
        "no other change that led is free of what the confirmation accuses",
    )
    assert ran.problems() == []


def test_a_session_killed_after_the_fault_goes_on_with_the_next_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = run_session(tmp_path / "calm", (PACKING, LATE_CRASH))
    record = Context.record

    def dies(self: Context, event: object) -> None:
        record(self, event)  # type: ignore[arg-type]
        if isinstance(event, ConfirmationFailed):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Context, "record", dies)
        with pytest.raises(KeyboardInterrupt):
            run_session(tmp_path / "killed", (PACKING, LATE_CRASH))
    (folder,) = (tmp_path / "killed").glob("fake-*")
    framework = FakeFramework(knob_table=(PACKING, LATE_CRASH))
    resume_session(folder, framework, TuneOptions(root=folder.parent), SteppingClock(), quiet)
    ran = Ran(folder, framework)
    assert ran.decision.settings == calm.decision.settings
    assert ran.moves_tried() == calm.moves_tried()
    assert ran.problems() == []


@pytest.mark.parametrize("error", [TrialError("the run died"), MemoryError("3.0 GiB asked for")])
def test_a_baseline_that_dies_in_the_confirmation_is_not_the_winners_fault(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = FakeFramework.launch

    def dies(self: FakeFramework, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> Session:
        if spec.seed >= job.algorithm.seed + CONFIRM_SEED_SHIFT and spec.settings["layout"] == "padded":
            raise error
        return launch(self, job, spec, out_dir)

    monkeypatch.setattr(FakeFramework, "launch", dies)
    with pytest.raises(TrialError, match=str(error)):
        run_session(tmp_path, (PACKING,))
    (folder,) = tmp_path.glob("fake-*")
    state = Ran(folder, FakeFramework()).state
    assert state.confirmations == ()
    assert state.session_ended is not None


def change(*knobs: str) -> Change:
    moves = tuple(Move(knob=knob, old=0, new=1) for knob in knobs)
    return Change(moves=moves, effect=Effect.NONE, restart=Restart.HOT)


def led(number: int, ratio: float, *knobs: str) -> TrialEnded:
    return TrialEnded(
        trial=Trial(number=number, change=change(*knobs), state=TrialState.FINISHED),
        verdicts=(),
        outcome=Outcome.ADOPT,
        reasons=(),
        ratio_to_baseline=Estimate(value=ratio, unit="x", source=Source.MEASURED),
    )


def died(*knobs: str) -> ConfirmationFailed:
    signature = change(*knobs).signature
    return ConfirmationFailed(
        signature=signature, state=TrialState.FAILED, cause="dead", cost_wall_s=1.0, cost_device_s=2.0
    )


def test_what_holds_all_that_a_confirmation_accuses_is_no_next_best() -> None:
    whole, winner, other = led(1, 0.5, "a", "b", "c"), led(2, 0.4, "a", "b"), led(3, 0.7, "b", "c")
    effects = dict.fromkeys("abc", Effect.NONE)
    assert search_state(SessionState(ended=(whole, winner, other)), effects).incumbent is winner
    found = search_state(SessionState(ended=(whole, winner, other), confirmations=(died("a", "b"),)), effects)
    assert found.incumbent is other
    assert not found.is_open(change("a", "b", "d"))
    assert found.is_open(change("a"))


def test_a_move_that_alone_is_left_to_have_killed_a_confirmation_is_banned() -> None:
    state = SessionState(ended=(led(1, 0.5, "a", "b"), led(2, 0.6, "a")), confirmations=(died("a", "b"), died("a")))
    found = search_state(state, dict.fromkeys("ab", Effect.NONE))
    assert found.banned == {("a", 1)}
    assert found.incumbent is None
    assert found.is_open(change("b"))
