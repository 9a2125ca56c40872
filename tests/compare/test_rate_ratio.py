import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.compare.ratio import LAUNCH_CV, SINGLE_STEP_CV, half_width, log_mean, ratio_of
from steptune.compare.settle import launches_needed
from steptune.core.estimate import Estimate, Source

POSITIVE = st.floats(min_value=1e-3, max_value=1e6)


def test_single_steps_differ_by_fifteen_percent_by_chance() -> None:
    one, other = log_mean([100.0]), log_mean([100.0])
    assert one is not None
    assert other is not None
    assert half_width(one, other) == pytest.approx(1.96 * math.sqrt(2) * SINGLE_STEP_CV, rel=1e-3)
    assert 0.14 < half_width(one, other) < 0.16


def test_endless_steps_leave_the_spread_between_launches() -> None:
    many = log_mean([100.0, 100.1] * 500)
    assert many is not None
    assert half_width(many, many) == pytest.approx(1.96 * math.sqrt(2) * LAUNCH_CV, rel=0.01)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [float("nan")], [1.0, float("inf")]])
def test_values_that_are_no_rate_give_nothing(values: list[float]) -> None:
    assert log_mean(values) is None


def test_an_estimate_keeps_the_spread_of_its_interval() -> None:
    # mean 10, half-width 2 at n=4: t(3) = 3.182, so the error of the mean is 0.628 and its variance relative 0.00395
    found = log_mean(Estimate(value=10, low=8, high=12, unit="s", source=Source.MEASURED, n=4))
    assert found is not None
    assert found.variance == pytest.approx((2 / 3.182 / 10) ** 2, rel=1e-3)


@given(st.lists(POSITIVE, min_size=1, max_size=8), st.lists(POSITIVE, min_size=1, max_size=8))
def test_swapping_the_sides_inverts_the_ratio_and_its_interval(a: list[float], b: list[float]) -> None:
    one, other = log_mean(a), log_mean(b)
    assert one is not None
    assert other is not None
    there, back = ratio_of(one, other, note=""), ratio_of(other, one, note="")
    assert there.low is not None
    assert back.high is not None
    assert there.value * back.value == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)
    assert there.low < there.value


@given(POSITIVE)
def test_nothing_is_ever_proven_against_itself(value: float) -> None:
    one = log_mean([value])
    assert one is not None
    same = ratio_of(one, one, note="")
    assert same.low is not None
    assert same.high is not None
    assert same.low < 1 < same.high


def test_smaller_differences_need_more_launches() -> None:
    # 2 * (1.96 * 0.033 / 0.0488)^2 = 3.5 -> 4
    assert launches_needed(math.log(1.05)) == 4
    assert launches_needed(math.log(1.3)) == 2
    assert launches_needed(0.0) == 0
