"""The common axis of a chart."""

import math

from hypothesis import given
from hypothesis import strategies as st

from steptune.report.svg.axis import MAX_TICKS, axis_over

values = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=8)


@given(values, st.booleans())
def test_every_finite_value_is_on_the_drawing(some: list[float], from_zero: bool) -> None:
    axis = axis_over([*some, math.nan, None], from_zero=from_zero)
    assert all(0 <= axis.percent(value) <= 100 for value in some)


@given(values, st.booleans())
def test_ticks_are_few_and_on_the_axis(some: list[float], from_zero: bool) -> None:
    axis = axis_over(some, from_zero=from_zero)
    ticks = axis.ticks()
    assert len(ticks) <= MAX_TICKS
    assert all(-0.1 <= axis.percent(tick) <= 100.1 for tick in ticks)


def test_an_axis_without_any_value_still_draws() -> None:
    assert axis_over([math.nan, None], from_zero=False).ticks() == (0.0, 0.5, 1.0)


def test_ticks_are_round() -> None:
    assert axis_over([1.04], from_zero=True).ticks() == (0.0, 0.5, 1.0)
