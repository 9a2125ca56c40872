"""Metrics that the decision does not state, beside the job's own first steps; and those that it does."""

import math

import pytest
from watch_pastes import paste, series, wire

from steptune.core.decision import Range
from steptune.watch.own_start import judge_by_start
from steptune.watch.promise import RISES, gain_lasts_down_to

HELD = [wire("step_time_s", 30)]
SHORTER = Range(completion_len_mean=100, completion_len_max=400, forecast_ratio_at={"0.5x": 0.7, "1x": 0.5})


@pytest.mark.parametrize(("name", "metric"), [("gen_batches", "gen_batches"), ("tool_time", "tool_time_s")])
def test_a_rise_beyond_its_share_of_the_start_trips_and_a_smaller_one_does_not(name: str, metric: str) -> None:
    factor = RISES[metric].factor
    beyond, within = (paste(series(name, [2.0] * 5 + [2.0 * factor * by] * 4)) for by in (1.01, 0.99))
    (fired,) = judge_by_start(beyond, HELD)
    assert fired.alarm is not None
    assert (fired.alarm.metric, fired.alarm.since_step, fired.alarm.action) == (metric, 6, RISES[metric].action)
    (calm,) = judge_by_start(within, HELD)
    assert (calm.alarm, calm.why_unjudged) == (None, "")


@pytest.mark.parametrize(
    ("values", "why"),
    [([2.0] * 7, "7 of 8"), ([0.0] * 9, "is 0 in the first 5"), ([math.nan] + [2.0] * 8, "in the first 5 steps")],
)
def test_a_start_that_says_nothing_is_not_a_pass(values: list[float], why: str) -> None:
    (judged,) = judge_by_start(paste(series("tool_time", values)), HELD)
    assert judged.alarm is None
    assert why in judged.why_unjudged


def test_without_a_decision_or_where_it_states_the_figure_the_start_is_not_asked() -> None:
    log = paste(series("gen_batches", [1.0] * 5 + [9.0] * 5))
    assert judge_by_start(log, []) == []
    assert judge_by_start(log, [wire("gen_batches", 10)]) == []
    assert judge_by_start(paste(), HELD) == []


def test_the_gain_lasts_down_to_where_the_forecast_line_meets_the_baseline() -> None:
    assert gain_lasts_down_to(SHORTER) == 0.5
    # 0.5 at 1x, 1.5 at half: reaches 1 halfway between
    assert gain_lasts_down_to(SHORTER.model_copy(update={"forecast_ratio_at": {"0.5x": 1.5, "1x": 0.5}})) == 0.75
    for unknown in ({"1x": 0.5}, {"0.5x": math.nan, "1x": 0.5}, {"0.5x": 0.5, "1x": 1.0}, {}):
        assert gain_lasts_down_to(SHORTER.model_copy(update={"forecast_ratio_at": unknown})) is None


def test_our_own_training_without_dynamic_sampling_throws_no_group_away() -> None:
    # fewer mixed groups as it learns are no batches generated in vain
    log = paste(series("gen_batches", [1.2] * 5 + [2.5] * 5)).model_copy(update={"framework": "steptune"})
    assert judge_by_start(log, HELD) == []
