import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.trend import (
    MAX_POINTS,
    chance_of_rise,
    mann_kendall_p_rising,
    rises,
    theil_sen_slope,
    thinned,
    trend,
)


def test_the_slope_of_a_line_is_found_through_one_wild_step() -> None:
    line = [1.0 + 0.5 * step for step in range(9)]
    assert theil_sen_slope(line) == pytest.approx(0.5)
    line[4] = 1000.0
    assert theil_sen_slope(line) == pytest.approx(0.5)


def test_slope_and_p_value_equal_the_reference() -> None:
    # Theil-Sen of these values is 1 (scipy 1.17.1 theilslopes). S = 13 - 2 = 11, var = 6*5*17/18 = 28.33,
    # z = 10 / 5.323 = 1.879, p = 0.0301 (exact: 0.0278)
    found = trend([1.0, 3.0, 2.0, 5.0, 4.0, 7.0])
    assert found.slope == pytest.approx(1.0)
    assert found.p_rising == pytest.approx(0.0301, abs=1e-4)
    assert found.n == 6


def test_runs_that_rise_together_are_surer_than_each_alone_and_a_fall_takes_it_back() -> None:
    up, down = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    # z = 1.698 each; of three together 1.698 x sqrt(3) = 2.94: p = 0.0016
    assert chance_of_rise([up]) == pytest.approx(mann_kendall_p_rising(up))
    assert chance_of_rise([up, up, up]) == pytest.approx(0.0016, abs=1e-4)
    assert chance_of_rise([up, down]) > 0.5


def test_four_rising_points_are_just_significant() -> None:
    # S = 6, var = 4*3*13/18 = 8.667, z = 5/2.944 = 1.698, p = 0.0447; exact 1/24 = 0.0417
    assert mann_kendall_p_rising([1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.0447, abs=1e-4)


def test_a_fall_and_a_flat_line_do_not_rise() -> None:
    assert mann_kendall_p_rising([4.0, 3.0, 2.0, 1.0]) > 0.95
    assert mann_kendall_p_rising([2.0] * 6) == 1.0


def test_ties_make_the_same_score_more_surprising() -> None:
    # S = 8 in both; ties lower the variance, so z is larger
    assert mann_kendall_p_rising([1.0, 1.0, 2.0, 2.0, 3.0]) < mann_kendall_p_rising([1.0, 3.0, 2.0, 4.0, 5.0])


def test_noise_without_a_trend_is_called_rising_in_5_percent_of_draws() -> None:
    rng = random.Random(6)
    p_values = [mann_kendall_p_rising([rng.random() for _ in range(10)]) for _ in range(2000)]
    assert 0.035 <= sum(p <= 0.05 for p in p_values) / 2000 <= 0.065


@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=15), st.floats(0.001, 100))
def test_scaling_scales_the_slope_and_keeps_its_sign(values: list[float], scale: float) -> None:
    scaled = theil_sen_slope([scale * v for v in values])
    assert scaled == pytest.approx(scale * theil_sen_slope(values), rel=1e-9, abs=1e-9)
    assert 0 <= mann_kendall_p_rising(values) <= 1


def test_too_few_or_broken_points_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        trend([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="finite"):
        theil_sen_slope([1.0, math.nan])


def test_a_rise_among_noise_is_found_in_a_long_log_too() -> None:
    long = [i / 1000 + (0.3 if i % 2 else 0.0) for i in range(5 * MAX_POINTS + 3)]
    assert len(thinned(long)) <= MAX_POINTS
    assert rises(long)
    assert not rises([-v for v in long])


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [1.0] * 50, [1.0, 2.0] * 20, [1.0, 9.0, 2.0, 9.0]])
def test_too_few_or_level_values_do_not_rise(values: list[float]) -> None:
    assert not rises(values)


def test_four_values_must_rise_each_time_and_seven_may_swap_one_pair() -> None:
    assert rises([1.0, 2.0, 3.0, 4.0])
    assert not rises([1.0, 3.0, 2.0, 4.0])
    # S = 21 - 2 = 19, var = 7*6*19/18 = 44.3, z = 18/6.66 = 2.70, p = 0.0035
    assert rises([1.0, 2.0, 4.0, 3.0, 5.0, 6.0, 7.0])
