import math

import pytest
from forecast_cases import CURVES, curve, decode, train
from hypothesis import given
from hypothesis import strategies as st

from steptune.forecast.curve import CostBook, ForecastError, find_curve, price_at

DECODE = CURVES[0]


def test_prices_lie_on_the_line_between_points() -> None:
    # 1 ms at 1 row, 11 ms at 101: 51 rows are half-way
    price = price_at(DECODE, 51)
    assert (price.seconds, price.reach) == (pytest.approx(0.006), 0.0)


def test_extrapolation_goes_on_along_the_last_line_and_says_how_far() -> None:
    price = price_at(DECODE, 202)
    assert (price.seconds, price.reach) == (pytest.approx(0.0211), pytest.approx(1.0))


def test_extrapolation_below_the_first_point_is_never_negative() -> None:
    steep = curve("train", (10, 0.001), (20, 1.0))
    price = price_at(steep, 5)
    assert (price.seconds, price.reach) == (0.0, 0.5)


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
