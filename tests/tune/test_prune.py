from pathlib import Path

import pytest
from fake_sessions import job_of, run_session

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.errors import TrialError
from steptune.core.estimate import Estimate, Source
from steptune.core.event import Waterfall, WaterfallStep
from steptune.core.framework import LaunchSpec, Session
from steptune.core.job import BudgetSpec, JobSpec
from steptune.core.knob import Effect, Restart
from steptune.core.phase import Role
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, PACKING, PLACEBO, FakeKnob
from steptune.tune.baseline import NOTHING
from steptune.tune.prune import idle_moves

PRECISE_PLACEBO = FakeKnob(
    name="rollout_dtype",
    side=Role.ROLLOUT,
    factors={"fp32": 1.0, "bf16": 1.0},
    believed={"fp32": 1.0, "bf16": 0.6},
    effect=Effect.PRECISION,
)
"""Does nothing, and would owe a reward test."""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lever_that_does_nothing_does_not_ride_along(seed: int, tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION, PLACEBO), seed=seed)
    assert ran.trials[0].trial.change.applied_to({})["placebo"] == "on", "it must have been in the winner"
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True, "placebo": "off"}
    assert ran.problems() == []


def test_the_slimmer_change_is_tried_like_any_other_against_the_baseline(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION, PLACEBO))
    whole, slim = ran.trials
    assert slim.trial.number == 2
    assert slim.trial.incumbent_signature == NOTHING.signature
    assert {verdict.guard for verdict in slim.verdicts} == {verdict.guard for verdict in whole.verdicts}
    kinds = [event.kind for event in ran.events]
    after = kinds[kinds.index("waterfall") :]
    # a forecast from the profile alone, one that has learnt, then the trial: all after the waterfall that asked for it
    assert after[:5] == ["waterfall", "forecasted", "forecasted", "trial_started", "trial_ended"]
    assert ran.state.confirmed is not None
    assert ran.state.confirmed.signature == slim.trial.change.signature


def test_an_idle_lever_that_owed_a_reward_test_is_gone_before_the_test(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION, PRECISE_PLACEBO))
    assert ran.trials[0].trial.change.effect is Effect.PRECISION
    assert ran.decision.change.effect is Effect.NONE
    assert ran.state.reward_tests == ()


def test_without_a_trial_left_the_winner_stays_whole(tmp_path: Path) -> None:
    job = job_of(budget=BudgetSpec(max_trials=1, device_time_s=1e6, wall_time_s=1e6))
    ran = run_session(tmp_path, (PACKING, COMPACTION, PLACEBO), job=job)
    assert len(ran.trials) == 1
    assert ran.decision.settings["placebo"] == "on"


def test_a_winner_is_not_pruned_to_nothing(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING,))
    assert len(ran.trials) == 1
    assert ran.decision.settings == {"layout": "packed"}


def stage(*knobs: str) -> Change:
    moves = tuple(Move(knob=knob, old="off", new="on") for knob in sorted(knobs))
    return Change(moves=moves, effect=Effect.NONE, restart=Restart.HOT)


def row(change: Change, low: float, value: float, high: float) -> WaterfallStep:
    ratio = Estimate(value=value, low=low, high=high, unit="x", source=Source.MEASURED, n=3)
    step = Estimate(value=1.0, unit="s", source=Source.MEASURED)
    return WaterfallStep(added="", step_time=step, ratio_to_previous=ratio, signature=change.signature)


def idle_knobs(*rows: WaterfallStep, stages: list[Change], band: float = 0.02) -> list[list[str]]:
    waterfall = Waterfall(rows=rows, cost_wall_s=0.0, cost_device_s=0.0)
    return [[move.knob for move in group] for group in idle_moves(waterfall, stages, band)]


def test_idle_is_what_does_not_beat_the_noise_in_its_own_row() -> None:
    stages = [NOTHING, stage("a"), stage("a", "b"), stage("a", "b", "c"), stage("a", "b", "c", "d")]
    rows = (
        row(stages[1], 0.70, 0.75, 0.80),  # a gain
        row(stages[2], 0.96, 0.99, 1.02),  # reaches 1
        row(stages[3], 0.985, 0.988, 0.991),  # surely below 1, but inside a band of 2 %
        row(stages[4], 1.10, 1.20, 1.30),  # slower
    )
    assert idle_knobs(*rows, stages=stages) == [["d"], ["b"], ["c"]]


def test_small_gains_that_add_up_to_more_than_the_noise_are_kept() -> None:
    stages = [NOTHING, stage("a"), stage("a", "b"), stage("a", "b", "c")]
    rows = tuple(
        row(each, value - 0.03, value, value + 0.03)
        for each, value in zip(stages[1:], (0.975, 0.98, 0.97), strict=True)
    )
    # each reaches 1 alone; b and a together 0.98 x 0.975 = 0.956, up to 0.956 x 1.044 = 0.997;
    # with c 0.927, up to 0.927 x 1.054 = 0.977: surely a gain above a band of 2 %
    assert idle_knobs(*rows, stages=stages) == [["b"], ["a"]]


def test_levers_that_were_added_together_go_together() -> None:
    stages = [NOTHING, stage("a"), stage("a", "correction", "schedule")]
    rows = (row(stages[1], 0.7, 0.75, 0.8), row(stages[2], 0.9, 1.0, 1.1))
    assert idle_knobs(*rows, stages=stages) == [["correction", "schedule"]]


def test_a_row_without_an_interval_removes_nothing() -> None:
    stages = [NOTHING, stage("a"), stage("a", "b")]
    broken = row(stages[1], 0.9, 1.0, 1.1).model_copy(update={"ratio_to_previous": None})
    nan = row(stages[2], float("nan"), 1.0, 1.1)
    assert idle_knobs(broken, nan, stages=stages) == []


def test_a_stage_that_dies_in_the_waterfall_prunes_nothing_and_the_winner_is_confirmed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = FakeFramework.launch

    def dies(self: FakeFramework, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> Session:
        if (spec.settings["layout"] == "packed") != spec.settings["compact_finished"]:  # a stage between both ends
            raise TrialError("the run died")
        return launch(self, job, spec, out_dir)

    monkeypatch.setattr(FakeFramework, "launch", dies)
    ran = run_session(tmp_path, (PACKING, COMPACTION))
    assert ran.waterfalls == []
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True}
