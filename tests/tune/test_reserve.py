"""What is kept for the stages after the search: priced by what the session measures, each stage within its share."""

from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet, run_session
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.event import RewardTested
from steptune.core.job import BudgetSpec, CpuDevices, GuardSpec, LimitsSpec
from steptune.core.knob import Effect
from steptune.core.phase import Role
from steptune.core.verdict import Judgement
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, LEAKY_DTYPE, PACKING, FakeKnob
from steptune.trial.blocks import BlockPlan
from steptune.tune.reward_guards import guard_training
from steptune.tune.session import TuneOptions, start_session
from steptune.tune.stage_cost import UnitCosts, Winner, confirm_s, reward_s, training_run_s, waterfall_s

SIMPLE = UnitCosts(
    step_s=1.0,
    start_up_s=10.0,
    evaluate_s=2.0,
    best_practice_ratio=0.5,
    confirm_plan=BlockPlan(max_pairs=2, kept_steps=3),
)


def on_virtual_time(root: Path, framework: FakeFramework, budget_s: float) -> Ran:
    job = job_of(budget=BudgetSpec(wall_time_s=budget_s, device_time_s=1e6), guard=GuardSpec(reward_seeds=3))
    job = job.model_copy(update={"devices": CpuDevices(num_cores=1)})  # a virtual clock knows no two runs at once
    path = start_session(job, framework, TuneOptions(root=root), SteppingClock(), quiet, lambda: framework.spent_s)
    return Ran(path, framework)


def test_a_confirmation_is_three_launches_and_one_at_natural_lengths() -> None:
    # an arm of 1 s: 2 of warm-up, 2 x (3 + 1 rehearsed) = 10; of 0.5 s: 1 + 2 x (1.5 + 1.0: two steps fill 0.6 s) = 6
    winner = Winner(ratio=0.5, num_stages=2)
    assert confirm_s(SIMPLE, winner) == pytest.approx(3 * (3 * 10 + 10 + 6 + 6) + 2 * 10 + 10 + 6)


def test_a_waterfall_has_a_launch_for_every_stage() -> None:
    # 1 s: 2 + 4 x (2 + 1) = 14; 0.5 s: 1 + 4 x (1 + 1) = 9; and two launches
    assert waterfall_s(SIMPLE, Winner(ratio=0.5, num_stages=2)) == pytest.approx(20 + 14 + 9)


def test_a_run_that_settles_and_drops_steps_makes_every_arm_longer() -> None:
    plain, queued = Winner(ratio=0.5, num_stages=2), Winner(ratio=0.5, num_stages=2, settling_steps=3, dropped_steps=3)
    # 3 steps more before, and 3 in each of 4 blocks, of 1 and of 0.5 s
    assert waterfall_s(SIMPLE, queued) - waterfall_s(SIMPLE, plain) == pytest.approx((3 + 4 * 3) * 1.5)


def test_the_last_run_of_a_reward_test_has_a_core_to_itself() -> None:
    guard = GuardSpec(reward_seeds=2, reward_steps=10)
    winner = Winner(ratio=0.5, num_stages=2)
    # 1.5 x (10 + 10 + 2 x 2) = 36 and 1.5 x (10 + 5 + 2) = 25.5: 36 | 25.5, 36 | 25.5 ends after 61.5
    took_s = reward_s(SIMPLE, winner, guard, num_beside=2, is_rate_owed=True, num_pairs=2)
    assert training_run_s(SIMPLE, 10, 1.0, 2) == 36.0
    assert took_s == pytest.approx(61.5)
    assert reward_s(SIMPLE, winner, guard, num_beside=1, is_rate_owed=True, num_pairs=2) == pytest.approx(123.0)


@given(ratio=st.floats(0.05, 1.0), start_up_s=st.floats(0.0, 60.0), stages=st.integers(1, 15))
def test_dearer_launches_more_stages_and_slower_winners_never_cost_less(
    ratio: float, start_up_s: float, stages: int
) -> None:
    unit = UnitCosts(
        step_s=1.0, start_up_s=start_up_s, evaluate_s=0, best_practice_ratio=1.0, confirm_plan=SIMPLE.confirm_plan
    )
    winner = Winner(ratio=ratio, num_stages=stages)
    assert waterfall_s(unit, Winner(ratio=ratio, num_stages=stages + 1)) > waterfall_s(unit, winner)
    assert 0 < confirm_s(unit, winner) < confirm_s(SIMPLE, Winner(ratio=1.0, num_stages=1)) + 11 * start_up_s + 99


@pytest.mark.parametrize("start_up_s", [0.0, 12.0])
def test_a_session_keeps_what_its_stages_then_use(start_up_s: float, tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION), start_up_s=start_up_s, noise=0.001)
    ran = on_virtual_time(tmp_path, framework, 3000.0)
    kept = ran.state.reserved
    assert kept is not None
    assert kept.start_up_s == pytest.approx(start_up_s, abs=1e-6)
    assert kept.reward_s == 0.0
    used_s = framework.spent_s - (3000.0 - kept.wall_left_s)
    assert kept.waterfall_s + kept.confirm_s == pytest.approx(used_s, rel=0.12)
    assert ran.problems() == []


def test_a_trial_slower_than_was_thought_ends_where_the_reserve_begins(tmp_path: Path) -> None:
    slow = FakeKnob(name="kernel", side=Role.TRAINER, factors={"a": 1.0, "b": 9.0}, believed={"a": 1.0, "b": 0.5})
    framework = FakeFramework(knob_table=(PACKING, slow))
    ran = on_virtual_time(tmp_path, framework, 330.0)
    kept = ran.state.reserved
    if kept is not None:  # packing led: what was promised to it was still there
        assert kept.wall_left_s + 9.6 >= kept.waterfall_s + kept.confirm_s
        assert ran.state.confirmed is not None
    assert framework.spent_s <= 330.0 + 9.6


def test_fewer_pairs_than_were_planned_say_what_they_could_still_see() -> None:
    runs = {"start_S": (0.4,) * 3, "baseline_S": (0.50, 0.51, 0.52), "candidate_S": (0.50, 0.52, 0.51)}
    lists = dict.fromkeys(("baseline_truncated_S", "candidate_truncated_S"), (0.0,) * 3)
    tested = RewardTested(signature="x", num_planned=5, verdicts=(), cost_wall_s=1, cost_device_s=1, **runs, **lists)
    reward = guard_training(tested, Effect.PRECISION, LimitsSpec(reward_margin=0.03))[0]
    assert reward.detectable is not None
    said = "3 of 5 pairs before the test's share of the budget ended: the smallest drop they could see is "
    assert f"{said}{reward.detectable.value:.3g}" in reward.because
    whole = guard_training(tested.model_copy(update={"num_planned": 3}), Effect.PRECISION, LimitsSpec())[0]
    assert "share of the budget" not in whole.because
    assert reward.judgement in (Judgement.PASS, Judgement.INCONCLUSIVE)


def test_a_resumed_session_knows_what_a_launch_and_an_evaluation_take(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, LEAKY_DTYPE))
    assert ran.state.start_up_s is not None
    assert ran.state.evaluate_s is not None
