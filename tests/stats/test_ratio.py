import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.ratio import block_means, geometric_mean, paired_ratios, ratio_interval

TIMES = st.lists(st.floats(0.01, 100), min_size=2, max_size=12)


@given(TIMES, st.randoms(use_true_random=False))
def test_swapping_the_arms_inverts_ratio_and_interval(times: list[float], rng: random.Random) -> None:
    other = [t * rng.uniform(0.5, 2.0) for t in times]
    there, back = ratio_interval(other, times), ratio_interval(times, other)
    assert back.value == pytest.approx(1 / there.value)
    assert back.low == pytest.approx(1 / there.high)
    assert back.high == pytest.approx(1 / there.low)


@given(TIMES, st.floats(0.1, 10))
def test_a_pure_factor_is_found_exactly_however_the_blocks_differ(times: list[float], factor: float) -> None:
    found = ratio_interval([factor * t for t in times], times)
    assert found.value == pytest.approx(factor)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-6 * factor)


def test_the_log_ratio_interval_covers_the_truth_in_95_percent_of_draws() -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(2000):
        slow = [rng.uniform(0.8, 1.5) for _ in range(5)]
        incumbent = [s * math.exp(rng.gauss(0.0, 0.05)) for s in slow]
        candidate = [s * 0.7 * math.exp(rng.gauss(0.0, 0.05)) for s in slow]
        interval = ratio_interval(candidate, incumbent)
        covered += interval.low <= 0.7 <= interval.high
    assert 0.93 <= covered / 2000 <= 0.97


def test_a_block_counts_by_its_mean_so_that_rare_slow_steps_are_paid_for() -> None:
    assert block_means([[1.0, 1.0, 4.0], [2.0]]) == [2.0, 2.0]


def test_geometric_mean_of_a_doubling_and_a_halving_is_one() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(statistics.geometric_mean([1.0, 4.0]))


@pytest.mark.parametrize("broken", [0.0, -1.0, math.nan, math.inf])
def test_times_that_cannot_be_are_refused(broken: float) -> None:
    with pytest.raises(ValueError, match=r"above zero|finite"):
        paired_ratios([1.0, broken], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"above zero|finite"):
        ratio_interval([1.0, 1.0], [1.0, broken])
    with pytest.raises(ValueError, match=r"above zero|finite"):
        geometric_mean([broken])


def test_unequal_numbers_of_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least 1"):
        block_means([[]])
