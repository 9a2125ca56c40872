"""80 % intervals of the scoreboard's figures: over jobs for errors, over cases for shares.

A statistic that weights jobs equally varies with the jobs that happened to be published, so whole jobs are drawn again,
never single rows. Surprise: with fifteen jobs the interval of a median is wide, and two arms with overlapping intervals
are not told apart by it.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

RESAMPLES = 400
"""Draws of the jobs: the ends of an interval move by less than a point between seeds."""

SEED = 20261130
"""One seed, so that two boards of one day agree."""

TAIL = 0.1
"""What is left out at each end."""

Z = 1.2816
"""Standard normal quantile of the 80 % interval."""

Bounds = tuple[float, float]
Statistic = Callable[[Sequence[Sequence[float]], Sequence[int]], float]
"""Of the values of each group and how often the group was drawn."""


def over_groups(values_by_group: Mapping[str, Sequence[float]], statistic: Statistic) -> Bounds | None:
    """Return the 80 % percentile interval of a statistic over draws of the groups; None with fewer than two."""
    groups = [values for values in values_by_group.values() if values]
    if len(groups) < 2:
        return None
    generator = random.Random(SEED)
    indices = range(len(groups))
    drawn = [Counter(generator.choices(indices, k=len(groups))) for _ in range(RESAMPLES)]
    found = sorted(statistic(groups, [counts[i] for i in indices]) for counts in drawn)
    last = RESAMPLES - 1
    return found[round(TAIL * last)], found[round((1 - TAIL) * last)]


def weighted_median(groups: Sequence[Sequence[float]], counts: Sequence[int]) -> float:
    """Return the median of values whose groups weigh the same, each as often as it was drawn."""
    weighted = sorted(
        (value, count / len(values)) for values, count in zip(groups, counts, strict=True) if count for value in values
    )
    target, total = sum(counts) / 2, 0.0
    for value, weight in weighted:
        total += weight
        if total >= target * (1 - 1e-12):
            return value
    return weighted[-1][0]


def weighted_mean(groups: Sequence[Sequence[float]], counts: Sequence[int]) -> float:
    """Return the mean of the groups' means, each as often as it was drawn."""
    return math.fsum(
        count * math.fsum(values) / len(values) for values, count in zip(groups, counts, strict=True)
    ) / sum(counts)


def of_share(right: int, of: int) -> Bounds | None:
    """Return Wilson's 80 % interval of ``right`` of ``of``; None of nothing (Wilson 1927)."""
    if of == 0:
        return None
    share, spread = right / of, Z * Z / of
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return max(0.0, middle - half), min(1.0, middle + half)
