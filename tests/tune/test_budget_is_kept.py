"""No session spends more than its budget and the one step that was running, start-ups included."""

from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptune.core.decision import Outcome
from steptune.core.job import BudgetSpec, CpuDevices, GuardSpec, LimitsSpec
from steptune.core.knob import Effect
from steptune.core.phase import Role
from steptune.core.verdict import Judgement
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, CORRECTION, PLACEBO, SCHEDULE, FakeKnob
from steptune.tune.session import TuneOptions, start_session

SLOW = FakeKnob(name="kernel", side=Role.TRAINER, factors={"a": 1.0, "b": 6.0}, believed={"a": 1.0, "b": 0.5})
"""Believed to be twice as fast, and three times as slow as the whole step: what an estimate does not see coming."""

BEFORE_TRAINING_S = 95.0
"""Virtual seconds of profile, one trial and waterfall."""

SPACES = ((COMPACTION,), (SLOW, COMPACTION), (PLACEBO, SLOW), (SCHEDULE, CORRECTION))
SIDES = (frozenset[Role](), frozenset({Role.TRAINER, Role.ROLLOUT}))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    knobs=st.sampled_from(SPACES),
    sides=st.sampled_from(SIDES),
    steps=st.integers(290, 520),
    start_up_s=st.sampled_from((0.0, 3.0, 20.0)),
    is_device=st.booleans(),
    max_trials=st.integers(1, 3),
)
def test_a_budget_is_never_exceeded_by_more_than_the_step_that_was_running(
    tmp_path: Path,
    knobs: tuple[FakeKnob, ...],
    sides: frozenset[Role],
    steps: int,
    start_up_s: float,
    is_device: bool,
    max_trials: int,
) -> None:
    longest_s = 0.6 + 0.4 * max(factor for knob in knobs for factor in knob.factors.values()) * 1.1
    framework = FakeFramework(knob_table=knobs, sides=sides, start_up_s=start_up_s, keeps_worker=True)
    budget = BudgetSpec(
        wall_time_s=1e6 if is_device else steps, device_time_s=steps if is_device else 1e6, max_trials=max_trials
    )
    limits = LimitsSpec(max_staleness=1, allow_corrections=True)
    job = job_of(budget=budget, limits=limits, guard=GuardSpec(reward_seeds=3, reward_steps=8))
    job = job.model_copy(update={"devices": CpuDevices(num_cores=1)})  # a virtual clock knows no two runs at once
    root = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    options = TuneOptions(root=root)
    path = start_session(job, framework, options, SteppingClock(), quiet, lambda: framework.spent_s)
    ran = Ran(path, framework)
    assert framework.spent_s <= steps + longest_s
    assert len(ran.trials) <= max_trials
    assert ran.decision is not None
    assert ran.problems() == []


@pytest.mark.parametrize(("extra_s", "num_pairs"), [(470.0, 1), (270.0, 0)])
def test_training_runs_slower_than_expected_end_with_their_share_and_leave_the_confirmation_its_own(
    extra_s: float, num_pairs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = FakeKnob(name="dtype", side=Role.ROLLOUT, factors={"fp32": 1.0, "bf16": 0.4}, effect=Effect.PRECISION)
    framework = FakeFramework(knob_table=(half,))
    monkeypatch.setattr("steptune.tune.stage_cost.ONE_CORE_SLOWDOWN", 0.0)  # as if steps beside others took no time
    budget = BudgetSpec(wall_time_s=BEFORE_TRAINING_S + extra_s, device_time_s=1e6)
    # a pair of 200 steps takes 200 x (1 + 0.64) = 328 s, and 96 s are the confirmation's
    job = job_of(budget=budget, guard=GuardSpec(reward_seeds=3, reward_steps=200))
    job = job.model_copy(update={"devices": CpuDevices(num_cores=1)})
    path = start_session(job, framework, TuneOptions(root=tmp_path), SteppingClock(), quiet, lambda: framework.spent_s)
    ran = Ran(path, framework)
    (tested,) = ran.state.reward_tests
    assert len(tested.baseline_S) == len(tested.candidate_S) == num_pairs
    assert framework.spent_s <= budget.wall_time_s + 1.1
    assert {verdict.judgement for verdict in tested.verdicts} == {Judgement.INCONCLUSIVE}
    said = {verdict.guard: verdict.because for verdict in tested.verdicts}["reward"]
    assert f"{num_pairs} of 3 pairs before the test's share of the budget ended" in said
    assert ran.state.confirmed is not None
    assert ran.decision.outcome is not Outcome.ADOPT
    assert ran.problems() == []
