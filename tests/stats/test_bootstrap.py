import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.bootstrap import bootstrap_interval, quantile


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = [random.Random(1).gauss(0, 1) for _ in range(3)] + [0.3, 0.9, -0.2, 1.4]
    first = bootstrap_interval(values, statistics.fmean, seed=7)
    assert first == bootstrap_interval(values, statistics.fmean, seed=7)
    assert first != bootstrap_interval(values, statistics.fmean, seed=8)


def test_the_bootstrap_of_a_mean_agrees_with_the_normal_interval() -> None:
    rng = random.Random(2)
    values = [rng.gauss(5.0, 1.0) for _ in range(100)]
    interval = bootstrap_interval(values, statistics.fmean, seed=1)
    half = 1.96 * statistics.stdev(values) / 10
    assert interval.value == statistics.fmean(values)
    assert interval.low == pytest.approx(interval.value - half, abs=0.15 * half)
    assert interval.high == pytest.approx(interval.value + half, abs=0.15 * half)
    assert interval.n == 100


def test_the_interval_of_a_median_stays_inside_the_values() -> None:
    interval = bootstrap_interval([1.0, 2.0, 3.0, 100.0, 5.0], statistics.median, seed=3)
    assert 1.0 <= interval.low <= interval.value <= interval.high <= 100.0


def test_less_confidence_is_narrower() -> None:
    values = [float(v) for v in range(20)]
    wide, narrow = (bootstrap_interval(values, statistics.fmean, seed=1, confidence=c) for c in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("values", [[1.0], [1.0, math.nan]])
def test_too_few_or_broken_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        bootstrap_interval(values, statistics.fmean, seed=1)


def test_quantiles_are_linear_between_order_statistics() -> None:
    assert [quantile([3.0, 1.0, 2.0], p) for p in (0.0, 0.25, 0.5, 1.0)] == [1.0, 1.5, 2.0, 3.0]
    assert quantile([4.0], 0.3) == 4.0


@pytest.mark.parametrize(("values", "p"), [([], 0.5), ([1.0], 1.1), ([1.0], math.nan)])
def test_a_quantile_needs_values_and_a_probability(values: list[float], p: float) -> None:
    with pytest.raises(ValueError, match="0 <= p <= 1"):
        quantile(values, p)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_the_extremes(values: list[float], p: float) -> None:
    assert min(values) - 1e-6 <= quantile(values, p) <= max(values) + 1e-6
