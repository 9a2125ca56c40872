"""Tests for `forecast.uneven`."""

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.forecast.uneven import excess_s, spread_of

SECONDS = st.floats(1e-4, 1e3)


def test_it_is_what_two_uneven_sides_have_beyond_the_longer_one_in_a_drawn_run() -> None:
    draw = random.Random(7)
    steps = [(draw.gauss(1.0, 0.3), draw.gauss(1.2, 0.4)) for _ in range(40_000)]
    measured = fmean(max(step) for step in steps) - 1.2
    assert excess_s(0.5, 0.2) == pytest.approx(measured, abs=0.01)  # 0.3² + 0.4² = 0.5²


@given(SECONDS, st.floats(0, 3))
def test_the_spread_is_found_again_from_what_it_makes(spread_s: float, apart: float) -> None:
    assert spread_of(excess_s(spread_s, apart * spread_s), apart * spread_s) == pytest.approx(spread_s, rel=1e-6)


@given(SECONDS, SECONDS, SECONDS)
def test_sides_further_apart_exceed_the_longer_one_by_less(spread_s: float, apart_s: float, more_s: float) -> None:
    assert 0 <= excess_s(spread_s, apart_s + more_s) <= excess_s(spread_s, apart_s)


def test_nothing_beyond_the_longer_side_is_no_spread() -> None:
    assert spread_of(0.0, 0.1) == excess_s(0.0, 0.0) == 0.0
