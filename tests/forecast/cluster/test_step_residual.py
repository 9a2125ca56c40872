"""Trials correct the phase they missed, and nothing else."""

from dataclasses import replace

import pytest
from step_model_cases import cluster, drawn_work, sides

from steptune.core.change import Change, Move
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.forecast.cluster.phase_residual import PhaseTrial, corrected, learn_phases
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.totals import Totals, parameters_from_totals


def change(**moves: KnobValue) -> Change:
    """These knobs moved."""
    made = tuple(Move(knob=knob, old=None, new=new) for knob, new in sorted(moves.items()))
    return Change(moves=made, effect=Effect.NONE, restart=Restart.HOT)


TRIAL = PhaseTrial(
    change=change(layout="packed"),
    forecast_ratio={"rollout": 1.0, "train": 0.70},
    measured_ratio={"rollout": 1.0, "train": 0.77},
)


def test_a_trial_of_training_corrects_training_and_not_the_rollout() -> None:
    own = sides(drawn_work(1)).parameters
    made = corrected(own, learn_phases([TRIAL], 0.005), change(layout="packed"))
    assert made.train.scale == pytest.approx(1.1, rel=0.01)
    assert made.rollout.scale == pytest.approx(1.0)


def test_another_knob_is_not_corrected_and_keeps_its_doubt() -> None:
    own = sides(drawn_work(1)).parameters
    learnt = learn_phases([TRIAL], 0.005)
    made = corrected(own, learnt, change(threads=2))
    assert made.train.scale == 1.0
    assert made.train_log_sd > corrected(own, learnt, change(layout="packed")).train_log_sd >= own.train_log_sd


def test_a_phase_that_nobody_measured_teaches_nothing() -> None:
    assert set(learn_phases([TRIAL], 0.02)) == {"rollout", "train"}
    assert learn_phases([], 0.02) == {}


def test_trials_of_other_device_counts_bend_the_forecast_of_the_next() -> None:
    job = drawn_work(1)
    made = parameters_from_totals(job, cluster(4, 4), Totals(rollout_s=1, train_s=40))
    told = replace(made, device_trials=((0.693, 0.693), (0.693, 0.69)))
    before, after = (Sides(parameters=p, work=job) for p in (made, told))
    # two trials in which half the devices took twice as long: no longer 2 ** 0.68
    assert step_seconds(after, cluster(4, 2)) > 1.15 * step_seconds(before, cluster(4, 2))
