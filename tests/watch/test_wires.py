"""Wires: what trips, since which step, what does not, and what cannot be judged."""

import math

import pytest
from watch_pastes import paste, series, wire

from steptune.watch.wires import GIB, judge_wires


def test_a_regime_trips_since_its_first_step_and_names_the_line() -> None:
    # medians of five: up to step 6 there are at most two slow steps in a window, from step 7 on three
    log = paste(series("step_time", [10, 10, 10, 10, 31, 32, 33, 34]))
    (judged,) = judge_wires(log, [wire("step_time_s", 30)])
    assert judged.alarm is not None
    assert judged.alarm.since_step == 5
    assert judged.alarm.origin is not None
    assert (judged.alarm.origin.line, judged.alarm.origin.key) == (50, "k/step_time")
    assert judged.alarm.action == "go back"


def test_two_slow_steps_of_five_trip_nothing() -> None:
    (judged,) = judge_wires(paste(series("step_time", [10, 99, 10, 99, 10])), [wire("step_time_s", 30)])
    assert (judged.alarm, judged.why_unjudged) == (None, "")


def test_a_regime_that_is_over_trips_nothing() -> None:
    log = paste(series("step_time", [40, 40, 40, 40, 40, 10, 10, 10]))
    assert judge_wires(log, [wire("step_time_s", 30)])[0].alarm is None


def test_a_limit_of_the_owner_is_broken_by_one_step() -> None:
    # 3 GiB once, bound 2.5 GiB
    log = paste(series("memory_reserved_gib", [2, 3, 2]), series("staleness_mean", [1.0]))
    memory, lag = judge_wires(log, [wire("memory_peak_bytes", 2.5 * GIB), wire("lag_max", 1)])
    assert memory.alarm is not None
    assert memory.alarm.since_step == 2
    assert lag.alarm is None
    assert "mean" in lag.why_unjudged  # a mean of 1 does not prove that nothing was older


def test_a_bound_below_is_held_from_the_other_side() -> None:
    assert judge_wires(paste(series("ess_frac", [0.2] * 3)), [wire("ess_frac", 0.3, above=False)])[0].alarm
    assert not judge_wires(paste(series("ess_frac", [0.4] * 3)), [wire("ess_frac", 0.3, above=False)])[0].alarm


@pytest.mark.parametrize(
    ("values", "why"), [([], "does not tell"), ([0.0, 0.0], "2 of 3"), ([0.0, 0.0, math.nan], "NaN")]
)
def test_what_is_not_told_too_short_or_nan_is_not_a_pass(values: list[float], why: str) -> None:
    (judged,) = judge_wires(paste(series("mismatch_k3", values)), [wire("mismatch_k3", 1e-3)])
    assert judged.alarm is None
    assert why in judged.why_unjudged


def test_steps_before_a_restart_do_not_count() -> None:
    log = paste(series("step_time", [40, 40, 40, 10, 10, 10], steps=[1, 2, 3, 1, 2, 3]))
    (judged,) = judge_wires(log, [wire("step_time_s", 30)])
    assert (judged.alarm, judged.why_unjudged) == (None, "")


def test_of_two_tripped_wires_on_one_metric_the_first_speaks() -> None:
    log = paste(series("step_time", [40, 40, 40]))
    judged = judge_wires(log, [wire("step_time_s", 30), wire("step_time_s", 20)])
    assert [one.wire.bound for one in judged] == [30]
