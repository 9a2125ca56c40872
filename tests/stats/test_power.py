import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.intervals import mean_interval
from steptune.stats.power import required_pairs, smallest_detectable_drop


def test_five_pairs_of_sd_one_percent_see_a_drop_of_1_4_percent() -> None:
    # (t.95(4) + t.80(4)) * sd / sqrt(5) = (2.1318 + 0.9410) * 0.01 / 2.2361 = 0.01374
    assert smallest_detectable_drop(num_pairs=5, sd=0.01) == pytest.approx(0.01374, abs=1e-5)


@pytest.mark.parametrize("num_pairs", [5, 20])
def test_a_drop_of_the_stated_size_is_found_in_80_percent_of_draws(num_pairs: int) -> None:
    rng = random.Random(4)
    drop = smallest_detectable_drop(num_pairs=num_pairs, sd=1.0)
    draws = ([rng.gauss(-drop, 1.0) for _ in range(num_pairs)] for _ in range(2000))
    # the upper end of a two-sided 90 % interval is the one-sided 95 % bound
    found = sum(mean_interval(diffs, 0.9).high < 0 for diffs in draws) / 2000
    assert 0.77 <= found <= 0.85


@given(drop=st.floats(0.001, 10), sd=st.floats(0, 10))
def test_required_pairs_is_the_fewest_that_is_enough(drop: float, sd: float) -> None:
    sd = min(sd, 50 * drop)
    n = required_pairs(drop=drop, sd=sd)
    assert smallest_detectable_drop(num_pairs=n, sd=sd) <= drop
    assert n == 2 or smallest_detectable_drop(num_pairs=n - 1, sd=sd) > drop


def test_without_spread_two_pairs_see_everything() -> None:
    assert smallest_detectable_drop(num_pairs=2, sd=0.0) == 0.0
    assert required_pairs(drop=0.01, sd=0.0) == 2


@pytest.mark.parametrize(("num_pairs", "sd"), [(1, 0.1), (5, -0.1), (5, math.nan), (5, math.inf)])
def test_power_needs_two_pairs_and_a_finite_spread(num_pairs: int, sd: float) -> None:
    with pytest.raises(ValueError, match="need"):
        smallest_detectable_drop(num_pairs=num_pairs, sd=sd)


@pytest.mark.parametrize(("drop", "sd"), [(0.0, 0.1), (math.nan, 0.1), (math.inf, 1), (0.1, math.nan), (0.1, -1)])
def test_required_pairs_needs_a_real_drop(drop: float, sd: float) -> None:
    with pytest.raises(ValueError, match="need"):
        required_pairs(drop=drop, sd=sd)
