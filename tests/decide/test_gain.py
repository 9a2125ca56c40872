import math

import pytest
from decision_records import times
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.estimate import Estimate, Source
from steptune.decide.gain import Gain, interval_of, is_lead, is_longer_step, judge_gain, power_text, spread_of
from steptune.stats.intervals import mean_interval

BAND = 0.03


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.71, 0.69, 0.73, Gain.FASTER),
        (0.96, 0.94, 0.99, Gain.FASTER),
        (0.98, 0.975, 0.985, Gain.NO_DIFFERENCE),  # clearly below 1, but not worth having
        (1.00, 0.98, 1.02, Gain.NO_DIFFERENCE),
        (1.20, 1.10, 1.30, Gain.SLOWER),
        (0.98, 0.95, 0.99, Gain.CANNOT_TELL),  # its value is not worth having, its best case is
        (0.80, 0.50, 1.10, Gain.CANNOT_TELL),
        (0.97, 0.97, 0.97, Gain.NO_DIFFERENCE),  # exactly the least gain is not above it
    ],
)
def test_a_ratio_has_one_of_four_verdicts(value: float, low: float, high: float, expected: Gain) -> None:
    assert judge_gain(value=value, low=low, high=high, worth_frac=BAND) is expected


@given(st.floats(0.01, 3), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_faster_is_always_below_one_and_above_the_least_gain(value: float, down: float, up: float, band: float) -> None:
    low, high = value * (1 - down), value * (1 + up)
    if judge_gain(value=value, low=low, high=high, worth_frac=band) is Gain.FASTER:
        assert high < 1
        assert 1 - value > band - 1e-12


@pytest.mark.parametrize(
    "broken",
    [
        times(0.7),
        times(0.7, low=0.6),
        times(0.7, high=0.8),
        times(math.nan, 0.6, 0.8),
        times(0.7, math.nan, 0.8),
        times(0.7, 0.6, math.inf),
        times(0.9, 0.6, 0.8),
        times(0.5, 0.6, 0.8),
        times(-0.7, -0.8, -0.6),
        times(0.0, 0.0, 0.0),
    ],
)
def test_a_ratio_that_is_incomplete_or_impossible_has_no_interval(broken: Estimate) -> None:
    assert interval_of(broken) is None


def test_a_complete_ratio_is_read_as_value_low_high() -> None:
    assert interval_of(times(0.7, 0.6, 0.8)) == (0.7, 0.6, 0.8)


LOGS = [-0.09, -0.01, -0.06, 0.01, -0.07, -0.02]
"""Log ratios with mean -0.04 and standard deviation 0.0390."""

TAIL = 0.01


def measured(logs: list[float]) -> Estimate:
    interval = mean_interval(logs, 1 - 2 * TAIL)
    value, low, high = (math.exp(v) for v in (interval.value, interval.low, interval.high))
    return Estimate(value=value, low=low, high=high, unit="x", source=Source.MEASURED, n=len(logs))


def test_the_spread_behind_a_ratio_is_found_again() -> None:
    assert spread_of(measured(LOGS), TAIL) == pytest.approx(0.0390, abs=1e-4)
    assert spread_of(times(0.7), TAIL) is None
    assert spread_of(times(0.7, 0.6, 0.8, n=1), TAIL) is None


def test_a_likely_gain_is_a_lead_and_a_small_or_doubtful_one_is_not() -> None:
    # t = 0.04 * sqrt(6) / 0.039 = 2.51, one-sided chance 0.027 at 5 degrees of freedom
    assert is_lead(measured(LOGS), TAIL, 0.01)
    assert not is_lead(measured(LOGS), TAIL, 0.05), "4 % is less than the least gain worth having"
    assert not is_lead(measured([v + 0.02 for v in LOGS]), TAIL, 0.01), "t = 1.26, chance 0.13"
    assert not is_lead(times(0.7), TAIL, 0.01)


def test_the_power_says_what_could_be_seen_and_how_many_more_it_takes() -> None:
    # smallest at n = 6: (2.015 + 0.920) * 0.0390 / sqrt(6) = 4.67 %; a gain of 2 % takes 26 (normal quantiles: 23.5)
    said = power_text(measured([v + 0.02 for v in LOGS]), TAIL, "launches")
    assert said == (
        "6 launches show a gain of 4.6% in 80% of cases (one-sided 95%); one as measured would take about 26"
    )
    assert "one as measured" not in power_text(measured([-v for v in LOGS]), TAIL, "pairs")
    assert power_text(times(0.7), TAIL, "pairs") == "too few pairs to say what they could show"


def test_a_step_is_longer_where_its_interval_or_its_value_says_so() -> None:
    assert is_longer_step(times(1.05, 1.01, 1.09), 0.01)
    assert is_longer_step(times(1.02, 0.98, 1.06), 0.01)
    assert not is_longer_step(times(1.005, 0.98, 1.03), 0.01)
    assert not is_longer_step(times(0.9, 0.8, 1.1), 0.01)


@pytest.mark.parametrize("step", [times(0.9), times(math.nan, math.nan, math.nan)])
def test_a_step_without_an_interval_is_not_shown_to_be_no_longer(step: Estimate) -> None:
    assert is_longer_step(step, 0.01)
