"""Scatter known from elsewhere: what it narrows, what it widens, and how often the interval misses."""

import math
import random

import pytest

from steptune.core.profile import PairSpread
from steptune.stats.pooled import MIN_SPREAD_PAIRS, pair_spread, pooled_ratio_interval
from steptune.stats.ratio import ratio_interval

INCUMBENT = [1.0, 1.0, 1.0]
CANDIDATE = [0.8, 0.82, 0.81]


def test_without_anything_known_it_is_the_plain_interval() -> None:
    assert pooled_ratio_interval(CANDIDATE, INCUMBENT, 0.9, None) == ratio_interval(CANDIDATE, INCUMBENT, 0.9)


def test_it_is_narrower_than_three_pairs_alone_where_the_scatter_is_the_same() -> None:
    alone = ratio_interval(CANDIDATE, INCUMBENT, 0.9)
    sd = math.log(alone.high / alone.low) / 2 / 2.920 * math.sqrt(3)  # t(0.95, 2) = 2.920
    pooled = pooled_ratio_interval(CANDIDATE, INCUMBENT, 0.9, PairSpread(sd=sd, num_degrees=11))
    assert pooled.value == alone.value
    # t(0.95, 13) = 1.771
    assert math.log(pooled.high / pooled.low) / math.log(alone.high / alone.low) == pytest.approx(1.771 / 2.920, 1e-3)


def test_the_spread_of_a_repeat_is_that_of_its_log_ratios() -> None:
    spread = pair_spread([math.e, 1.0, 1.0 / math.e], [1.0, 1.0, 1.0])
    assert spread is not None
    assert spread.sd == pytest.approx(1.0)
    assert spread.num_degrees == 2


@pytest.mark.parametrize(
    ("a_s", "b_s"),
    [
        ([1.0] * (MIN_SPREAD_PAIRS - 1), [1.0] * (MIN_SPREAD_PAIRS - 1)),
        ([1.0, 2.0, 3.0], [1.0, 2.0]),
        ([1.0, 0.0, 1.1], [1.0, 1.0, 1.0]),
        ([1.0, math.nan, 1.1], [1.0, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    ],
)
def test_a_repeat_that_does_not_tell_gives_no_spread(a_s: list[float], b_s: list[float]) -> None:
    assert pair_spread(a_s, b_s) is None


def test_it_covers_what_it_says_where_both_scatter_alike() -> None:
    rng, missed, num = random.Random(3), 0, 4000
    for _ in range(num):
        known = pair_spread([math.exp(rng.gauss(0, 0.04)) for _ in range(12)], [1.0] * 12)
        found = pooled_ratio_interval([math.exp(rng.gauss(0, 0.04)) for _ in range(3)], INCUMBENT, 0.9, known)
        missed += not found.low <= 1.0 <= found.high
    assert missed / num == pytest.approx(0.1, abs=0.02)  # four standard errors
