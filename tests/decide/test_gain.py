import math

import pytest
from decision_records import times
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.estimate import Estimate
from steptune.decide.gain import Gain, interval_of, judge_gain

BAND = 0.03


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.71, 0.69, 0.73, Gain.WINS),
        (0.96, 0.94, 0.99, Gain.WINS),
        (0.98, 0.975, 0.985, Gain.LOSES),  # clearly below 1, but inside the band
        (1.20, 1.10, 1.30, Gain.LOSES),
        (0.98, 0.95, 0.99, Gain.UNSETTLED),  # its value is inside the band, its best case is not
        (0.80, 0.50, 1.10, Gain.UNSETTLED),
        (0.97, 0.97, 0.97, Gain.LOSES),  # exactly at the band is not above it
    ],
)
def test_a_ratio_wins_loses_or_is_not_settled(value: float, low: float, high: float, expected: Gain) -> None:
    assert judge_gain(value=value, low=low, high=high, band_frac=BAND) is expected


@given(st.floats(0.01, 3), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_a_win_is_always_below_one_and_above_the_band(value: float, down: float, up: float, band: float) -> None:
    low, high = value * (1 - down), value * (1 + up)
    if judge_gain(value=value, low=low, high=high, band_frac=band) is Gain.WINS:
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
