"""Every trap of real tuning, as a knob of the fake framework that is faster and must not be adopted."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_sessions import Ran, job_of, run_session

from steptune.core.decision import Outcome
from steptune.core.errors import TrialError
from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import BudgetSpec, GuardSpec, JobSpec
from steptune.core.phase import Role
from steptune.core.trial import TrialState
from steptune.core.verdict import Judgement
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import (
    COMPACTION,
    CRASHING,
    HALVED_GRADIENT,
    HUNGRY,
    LAZY_ANSWERS,
    LEAKY_DTYPE,
    PACKING,
    PLACEBO,
    POISONED,
    SILENT,
    UNSEEN_WEIGHTS,
    FakeKnob,
    best_settings,
)
from steptune.tune.reserve import Reserve

HONEST = {"layout": "packed", "compact_finished": True}
"""The optimum without any trap: 0.56 s of 1.0 s."""


def tuned(root: Path, trap: FakeKnob, *, seed: int = 1) -> Ran:
    ran = run_session(root, (PACKING, COMPACTION, trap), seed=seed)
    assert ran.problems() == []
    return ran


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "trap",
    [LEAKY_DTYPE, LAZY_ANSWERS, SILENT, UNSEEN_WEIGHTS, HALVED_GRADIENT, HUNGRY, CRASHING, POISONED, PLACEBO],
    ids=lambda knob: knob.name,
)
def test_the_trap_is_refused_and_the_honest_optimum_found(trap: FakeKnob, seed: int, tmp_path: Path) -> None:
    ran = tuned(tmp_path, trap, seed=seed)
    safe = next(iter(trap.factors))
    assert any(trap.name in moves for moves in ran.moves_tried()), "the trap must have been tempting"
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == best_settings((PACKING, COMPACTION, trap), {trap.name: safe})
    assert ran.decision.settings == {**HONEST, trap.name: safe}


def test_a_leak_of_mismatch_stops_its_trial_and_only_its_knob_is_blamed(tmp_path: Path) -> None:
    first, second = tuned(tmp_path, LEAKY_DTYPE).trials
    assert first.trial.state is TrialState.STOPPED
    assert "limits.max_mismatch_k3" in first.trial.cause
    assert {move.knob for move in second.trial.change.moves} == {"layout", "compact_finished"}


def test_a_failed_reward_test_bans_the_guilty_move_and_the_search_goes_on(tmp_path: Path) -> None:
    ran = tuned(tmp_path, LAZY_ANSWERS)
    (tested,) = ran.state.reward_tests
    reward = next(verdict for verdict in tested.verdicts if verdict.guard == "reward")
    assert reward.judgement is Judgement.FAIL
    # it learns 0.2 less of 0.2: nothing, and the runs are long enough to see a tenth of that
    assert reward.detectable is not None
    assert reward.detectable.value < 0.02
    kinds = [event.kind for event in ran.events]
    assert kinds.index("reward_tested") < len(kinds) - 1 - kinds[::-1].index("trial_ended")
    assert ran.trials[0].outcome is Outcome.ADOPT, "the trial alone could not know"


def test_missing_metrics_are_never_a_pass(tmp_path: Path) -> None:
    first = tuned(tmp_path, SILENT).trials[0]
    mismatch = next(verdict for verdict in first.verdicts if verdict.guard == "mismatch")
    assert mismatch.judgement is Judgement.INCONCLUSIVE
    assert first.outcome is not Outcome.ADOPT


def test_weights_that_nobody_saw_arrive_are_never_a_pass(tmp_path: Path) -> None:
    first = tuned(tmp_path, UNSEEN_WEIGHTS).trials[0]
    arrived = next(verdict for verdict in first.verdicts if verdict.guard == "weights_arrived")
    assert arrived.judgement is Judgement.INCONCLUSIVE
    assert "do not say what arrived" in arrived.because
    assert first.outcome is not Outcome.ADOPT


def test_a_changed_gradient_is_found_by_parity_and_does_not_take_honest_knobs_with_it(tmp_path: Path) -> None:
    ran = tuned(tmp_path, HALVED_GRADIENT)
    failed = [e for e in ran.trials if any(v.judgement is Judgement.FAIL for v in e.verdicts)]
    assert all("update_parity failed" in reason for event in failed for reason in event.reasons)
    assert len(ran.trials) <= 4  # three moves accused together, then halved


def test_a_lead_that_parity_cannot_judge_is_given_up_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptune.tune.parity.probe_gap", lambda *_: None)  # as if no probe had come back
    ran = run_session(tmp_path, (PACKING,))
    assert_given_up(ran, "update_parity is inconclusive: a probe gap is missing")


@pytest.mark.parametrize("error", [TrialError("the replay died with exit code -11"), MemoryError("3.0 GiB asked for")])
def test_a_lead_whose_updates_could_not_be_replayed_is_not_followed_and_the_session_goes_on(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FakeFramework.replay_updates

    def dies(self: FakeFramework, job: JobSpec, parity: Sequence[ParityInput], out_dir: Path) -> list[ParityOutput]:
        if any(item.settings["layout"] == "packed" for item in parity):
            raise error
        return whole(self, job, parity, out_dir)

    monkeypatch.setattr(FakeFramework, "replay_updates", dies)
    assert_given_up(run_session(tmp_path, (PACKING,)), f"the replay could not be run: {error}")


def assert_given_up(ran: Ran, why: str) -> None:
    """The only trial led and was rejected as blind, and the decision says so."""
    (event,) = ran.trials
    assert event.outcome is Outcome.REJECT
    assert event.reasons[-1].startswith("cannot tell: update_parity is inconclusive")
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.decision.reasons[0].startswith("a change led in its trial, but could not be proven harmless")
    assert any(why in reason for reason in ran.decision.reasons)
    assert ran.problems() == []


def test_answers_of_natural_length_that_were_not_measured_leave_a_none_change_provisional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptune.tune.confirm._natural_blocks", lambda *_: [])
    ran = tuned(tmp_path, PLACEBO)
    assert ran.decision.outcome is Outcome.PROVISIONAL
    assert ran.decision.tripwires
    assert any("length is inconclusive" in reason for reason in ran.decision.reasons)


@pytest.mark.parametrize("seed", range(1, 6))
def test_out_of_memory_is_found_by_halving_within_the_trials_allowed(seed: int, tmp_path: Path) -> None:
    more = tuple(
        FakeKnob(name=f"extra_{i}", side=side, factors={"off": 1.0, "on": factor})
        for i, (side, factor) in enumerate([(Role.TRAINER, 0.8), (Role.ROLLOUT, 0.9), (Role.TRAINER, 0.7)])
    )
    knobs = (PACKING, HUNGRY, COMPACTION, *more)
    ran = run_session(tmp_path, knobs, seed=seed)
    assert len(ran.trials) <= job_of().budget.max_trials
    assert ran.trials[0].trial.state is TrialState.OUT_OF_MEMORY
    assert "3.0 GiB" in ran.trials[0].trial.cause
    assert ran.decision.settings == best_settings(knobs, {"recompute": True})


def test_a_launch_that_crashes_is_a_result_with_its_cause(tmp_path: Path) -> None:
    first = tuned(tmp_path, CRASHING).trials[0]
    assert first.trial.state is TrialState.FAILED
    assert "exit code -11" in first.trial.cause
    assert first.outcome is Outcome.REJECT
    assert first.verdicts == ()


def test_nan_never_passes_a_guard(tmp_path: Path) -> None:
    poisoned = [e for e in tuned(tmp_path, POISONED).trials if ("fused_norm", True) in _moves(e.trial.change.moves)]
    assert poisoned
    for event in poisoned:
        entropy = next(verdict for verdict in event.verdicts if verdict.guard == "entropy")
        assert entropy.judgement is not Judgement.PASS
        assert event.outcome is not Outcome.ADOPT


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_gain_that_is_noise_is_no_change(seed: int, tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PLACEBO,), seed=seed, noise=0.03)
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.decision.settings == {"placebo": "off"}
    assert ran.decision.reasons
    assert ran.decision.speedup is None
    (trial,) = ran.trials
    assert not trial.reasons[0].startswith("faster")  # at most a lead, which the confirmation did not prove
    assert ran.problems() == []


def test_all_traps_at_once_leave_the_honest_optimum(tmp_path: Path) -> None:
    traps = (LEAKY_DTYPE, LAZY_ANSWERS, PLACEBO, SILENT, HALVED_GRADIENT, HUNGRY, CRASHING)
    job = job_of(budget=BudgetSpec(max_trials=25, device_time_s=1e6, wall_time_s=1e6))
    ran = run_session(tmp_path, (PACKING, COMPACTION, *traps), job=job)
    safe = {trap.name: next(iter(trap.factors)) for trap in traps}
    assert ran.decision.settings == {**HONEST, **safe}
    assert ran.problems() == []


def test_a_reward_test_too_short_to_learn_makes_the_answer_provisional_with_its_trip_wires(tmp_path: Path) -> None:
    honest = FakeKnob(
        name="rollout_dtype", side=Role.ROLLOUT, factors={"fp32": 1.0, "bf16": 0.6}, effect=LEAKY_DTYPE.effect
    )
    ran = run_session(tmp_path, (honest,), job=job_of(guard=GuardSpec(reward_steps=1)))
    # in one step the baseline gains 0.2 x (1 - 0.5^(1/15)) = 0.009, less than twice the margin of 0.03
    assert ran.decision.outcome is Outcome.PROVISIONAL
    assert ran.decision.settings == {"rollout_dtype": "bf16"}
    assert {wire.metric for wire in ran.decision.tripwires} >= {"mismatch_k3", "step_time_s"}
    assert any("reward is inconclusive" in reason for reason in ran.decision.reasons)


def test_a_reward_test_that_the_budget_cannot_pay_is_owed_and_never_a_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FakeKnob(
        name="rollout_dtype", side=Role.ROLLOUT, factors={"fp32": 1.0, "bf16": 0.6}, effect=LEAKY_DTYPE.effect
    )
    # 1.5 x 6000 steps are 9,000 s of the baseline: three pairs on two cores take 25,000 s
    budget = BudgetSpec(device_time_s=1e6, wall_time_s=20_000)
    nothing = Reserve(waterfall_s=0.0, reward_s=0.0, confirm_s=0.0)
    monkeypatch.setattr("steptune.tune.winner.reserve", lambda *_: nothing)  # as if the trials had taken too long
    ran = run_session(tmp_path, (honest,), job=job_of(budget=budget, guard=GuardSpec(reward_steps=6000)))
    (tested,) = ran.state.reward_tests
    judged = {verdict.guard: verdict.judgement for verdict in tested.verdicts}
    assert judged == dict.fromkeys(("truncation", "length", "mismatch_growth", "reward"), Judgement.INCONCLUSIVE)
    assert "its share of the budget is" in tested.verdicts[0].because
    assert ran.decision.outcome is Outcome.REJECT
    assert ran.decision.settings == {"rollout_dtype": "fp32"}
    assert ran.problems() == []


def _moves(moves: object) -> set[tuple[str, object]]:
    assert isinstance(moves, tuple)
    return {(move.knob, move.new) for move in moves}
