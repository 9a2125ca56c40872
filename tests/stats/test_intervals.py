import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.estimate import Source
from steptune.stats.intervals import mean_estimate, mean_interval, paired_interval

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


def test_mean_interval_equals_the_hand_computed_one() -> None:
    # mean 2.5, sd 1.2910, t(3) = 3.1824, half = 3.1824 * 1.2910 / 2 = 2.0543
    interval = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert interval.value == 2.5
    assert interval.high - interval.value == pytest.approx(2.0543, abs=1e-4)
    assert interval.value - interval.low == pytest.approx(2.0543, abs=1e-4)
    assert interval.n == 4


@given(VALUES)
def test_more_confidence_is_never_narrower(values: list[float]) -> None:
    narrow, wide = mean_interval(values, 0.8), mean_interval(values, 0.99)
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high


@given(VALUES, st.floats(-1e3, 1e3), st.floats(0.1, 100))
def test_shifting_and_scaling_moves_the_interval_along(values: list[float], shift: float, scale: float) -> None:
    plain, moved = mean_interval(values), mean_interval([scale * v + shift for v in values])
    tolerance = 1e-6 * (1 + scale * (abs(plain.low) + abs(plain.high)) + abs(shift))
    assert moved.low == pytest.approx(scale * plain.low + shift, abs=tolerance)
    assert moved.high == pytest.approx(scale * plain.high + shift, abs=tolerance)


def test_pairing_removes_a_shared_disturbance() -> None:
    shared = [0.0, 50.0, -20.0, 7.0]
    baseline = [1.0 + s for s in shared]
    candidate = [b + d for b, d in zip(baseline, (0.1, 0.2, 0.1, 0.2), strict=True)]
    interval = paired_interval(candidate, baseline)
    assert interval.value == pytest.approx(0.15)
    assert interval.high < 0.3


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [1.0, math.inf]])
def test_too_few_or_broken_values_have_no_interval(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 2 finite"):
        mean_interval(values)


def test_unpaired_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_interval([1.0, 2.0], [1.0])


@pytest.mark.parametrize("n", [3, 12])
def test_the_interval_covers_the_truth_in_95_percent_of_draws(n: int) -> None:
    rng = random.Random(11)
    draws = (mean_interval([rng.gauss(1.0, 0.3) for _ in range(n)]) for _ in range(2000))
    # binomial sd at 2000 draws is 0.5 %, so 93 to 97 % is four of them
    assert 0.93 <= sum(i.low <= 1.0 <= i.high for i in draws) / 2000 <= 0.97


def test_an_estimate_says_its_coverage_when_it_is_not_95_percent() -> None:
    usual = mean_interval([1.0, 2.0]).estimate(unit="s", source=Source.MEASURED, note="seen")
    assert (usual.unit, usual.n, usual.note, usual.source) == ("s", 2, "seen", Source.MEASURED)
    other = mean_interval([1.0, 2.0], 0.8).estimate(unit="s", source=Source.MEASURED, note="seen")
    assert other.note == "seen; 0.8 interval"


def test_a_measured_mean_has_an_interval_from_two_values_on() -> None:
    one, two = mean_estimate([1.5], "s"), mean_estimate([1.0, 2.0], "s")
    assert (one.value, one.low, one.high, one.n) == (1.5, None, None, 1)
    assert (two.low, two.high) == (mean_interval([1.0, 2.0]).low, mean_interval([1.0, 2.0]).high)
    assert (two.unit, two.source, two.n) == ("s", Source.MEASURED, 2)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.nan]])
def test_a_broken_measurement_has_no_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_estimate(values, "s")
