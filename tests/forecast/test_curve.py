import math

import pytest
from forecast_cases import CURVES, curve, decode, train
from hypothesis import given
from hypothesis import strategies as st

from steptune.forecast.curve import CostBook, ForecastError, find_curve, price_at, rising

DECODE = CURVES[0]


def test_prices_lie_on_the_line_between_points() -> None:
    # 1 ms at 1 row, 11 ms at 101: 51 rows are half-way
    price = price_at(DECODE, 51)
    assert (price.seconds, price.reach) == (pytest.approx(0.006), 0.0)


def test_extrapolation_goes_on_along_the_last_line_and_says_how_far() -> None:
    price = price_at(DECODE, 202)
    assert (price.seconds, price.reach) == (pytest.approx(0.0211), pytest.approx(1.0))


def test_below_the_first_point_a_price_falls_no_faster_than_in_proportion() -> None:
    steep = curve("train", (10, 0.001), (20, 1.0))
    price = price_at(steep, 5)
    assert (price.seconds, price.reach) == (0.0005, 0.5)
    flat = curve("train", (10, 0.5), (20, 0.6))
    assert price_at(flat, 5).seconds == pytest.approx(0.45)  # a fixed cost stays


def test_points_that_fall_are_given_their_mean() -> None:
    unlucky = curve("train", (100, 0.1), (200, 0.4), (300, 0.2), (400, 0.5))
    assert [p.seconds for p in rising(unlucky.points)] == pytest.approx([0.1, 0.3, 0.3, 0.5])
    assert price_at(unlucky, 250).seconds == pytest.approx(0.3)


def test_beyond_an_end_that_was_levelled_the_whole_curve_goes_on() -> None:
    levelled = curve("train", (100, 0.1), (200, 0.4), (300, 0.2))
    # 0.1 to 0.3 over 200: 0.001 a position
    assert price_at(levelled, 400).seconds == pytest.approx(0.4)


def test_a_nan_in_a_curve_stays_a_nan() -> None:
    assert math.isnan(price_at(curve("train", (1, math.nan), (2, 1.0)), 1.5).seconds)


def test_a_single_point_prices_its_own_size_only() -> None:
    one = curve("handover", (7, 0.02))
    assert price_at(one, 7).seconds == 0.02
    with pytest.raises(ForecastError, match="measure `handover` at 8"):
        price_at(one, 8)


def test_a_curve_is_found_by_the_settings_it_was_measured_under() -> None:
    # the item also names a dtype, which no decode curve was split by
    assert CostBook(curves=CURVES).price(decode(x=1, threads=1)).seconds == 0.0012


def test_the_most_specific_curve_wins() -> None:
    special = curve("decode", (1, 0.5), rollout_threads=2, rollout_dtype="bf16")
    assert find_curve([DECODE, special], "decode", {"rollout_threads": 2, "rollout_dtype": "bf16"}) is special


def test_a_missing_curve_names_what_must_be_measured() -> None:
    with pytest.raises(ForecastError, match=r"hint: measure `train` under recompute=True"):
        CostBook(curves=CURVES).price(train(recompute=True))


@given(x=st.floats(1, 1e4), more=st.floats(0, 1e4))
def test_a_rising_curve_never_prices_more_rows_lower(x: float, more: float) -> None:
    assert price_at(DECODE, x + more).seconds >= price_at(DECODE, x).seconds * (1 - 1e-12)
