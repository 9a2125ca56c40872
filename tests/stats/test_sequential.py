import math
import random

import pytest

from steptune.core.profile import PairSpread
from steptune.stats.ratio import ratio_interval
from steptune.stats.sequential import is_settled, look_confidence, sequential_ratio_interval


def test_the_error_is_shared_out_over_the_looks() -> None:
    assert look_confidence(5) == pytest.approx(0.99)
    assert look_confidence(1) == pytest.approx(0.95)
    with pytest.raises(ValueError, match="one look"):
        look_confidence(0)


def test_a_ratio_at_one_look_is_the_plain_ratio() -> None:
    candidate, incumbent = [0.7, 0.72, 0.69], [1.0, 1.01, 0.99]
    one, many = (sequential_ratio_interval(candidate, incumbent, max_looks=looks) for looks in (1, 5))
    plain = ratio_interval(candidate, incumbent)
    assert (one.low, one.high) == pytest.approx((plain.low, plain.high))
    assert many.low < plain.low < plain.high < many.high
    assert many.confidence == 0.95


def test_stopping_at_the_first_exclusion_is_wrong_in_at_most_5_percent_where_a_plain_interval_is_not() -> None:
    rng = random.Random(9)
    wrong_plain = wrong_sequential = 0
    for _ in range(2000):
        arms = [[math.exp(rng.gauss(0.0, 0.05)) for _ in range(6)] for _ in range(2)]
        looks = [(arms[0][:n], arms[1][:n]) for n in range(2, 7)]
        plain = [ratio_interval(*look) for look in looks]
        shared = [sequential_ratio_interval(*look, max_looks=5) for look in looks]
        wrong_plain += any(i.low > 1 or i.high < 1 for i in plain)
        wrong_sequential += any(i.low > 1 or i.high < 1 for i in shared)
    assert wrong_sequential / 2000 <= 0.05
    assert wrong_plain / 2000 > 0.10


def test_pairs_settle_a_line_once_they_are_clear_of_it_and_never_before_the_first_look() -> None:
    above = [(1.0, 1.2), (1.0, 1.22), (1.0, 1.19), (1.0, 1.21)]
    looks = (4, 8, 12)
    assert is_settled(above, line=0.95, looks=looks, known=None)
    assert is_settled(above, line=1.5, looks=looks, known=None)
    assert not is_settled(above, line=1.2, looks=looks, known=None)
    assert not is_settled(above[:3], line=0.95, looks=looks, known=None)
    with pytest.raises(ValueError, match="at most 3 pairs"):
        is_settled(above, line=0.95, looks=(2, 3), known=None)


def test_nothing_is_settled_between_two_looks() -> None:
    pairs = [(1.0, 1.2), (1.0, 1.22), (1.0, 1.19), (1.0, 1.21)]
    assert not is_settled(pairs, line=0.95, looks=(3, 5), known=None)
    assert is_settled(pairs[:3], line=0.95, looks=(3, 5), known=PairSpread(sd=0.02, num_degrees=11))
