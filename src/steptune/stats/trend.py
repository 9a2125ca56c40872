"""Does a series grow? Theil-Sen slope and a one-sided Mann-Kendall test: neither cares about one wild step.

The surprise: the test needs four points. Three rising points have chance 1 in 6, so nothing below four can be
significant at 5 %; four rising points have chance 1 in 24. And a walk is no trend: a series that wanders passes the
5 % test far more often than 1 in 20, so longer ones must pass a stricter one.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

from steptune.stats.finite import require_finite

MIN_POINTS = 4
"""Fewest points with which a rise can be significant at one-sided 5 % (1/4! = 0.042)."""

SHORT_P, LONG_P = 0.05, 0.01
"""One-sided level at which a rise counts, below `LONG_POINTS` values and from there on."""

LONG_POINTS = 7
"""Values from which `LONG_P` can be reached with one pair out of order."""

TINY_P = 1e-12
"""Keeps a p value of 0 or 1 from becoming an infinite z."""

MAX_POINTS = 200
"""Points of a test that looks at all pairs: more would not change its verdict."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """Slope per step and how surprising it is: ``Trend(slope=2e-6, p_rising=0.01, n=12)``."""

    slope: float
    """Median of all pairwise slopes, per step."""
    p_rising: float
    """One-sided p value of "it rises", by Mann-Kendall with tie and continuity correction."""
    n: int


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median slope over all pairs of equally spaced values, per step (Sen 1968).

    Raises:
        ValueError: fewer than two values, or one that is not finite.
    """
    kept = require_finite(values, at_least=2)
    pairs = combinations(enumerate(kept), 2)
    return statistics.median((late - early) / (j - i) for (i, early), (j, late) in pairs)


def mann_kendall_p_rising(values: Sequence[float]) -> float:
    """Return the one-sided p value of a rise (Mann 1945, Kendall 1975), normal approximation.

    At four points, all rising, it gives 0.045 where the exact value is 0.042.

    Raises:
        ValueError: fewer than four values, or one that is not finite.
    """
    kept = require_finite(values, at_least=MIN_POINTS)
    n = len(kept)
    score = sum((late > early) - (late < early) for early, late in combinations(kept, 2))
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(kept).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18.0
    if variance == 0:  # all values equal
        return 1.0
    z = (score - 1.0) / math.sqrt(variance)
    return 1.0 - statistics.NormalDist().cdf(z)


def trend(values: Sequence[float]) -> Trend:
    """Return slope and p value of equally spaced values. Raises as `mann_kendall_p_rising`."""
    return Trend(slope=theil_sen_slope(values), p_rising=mann_kendall_p_rising(values), n=len(values))


def rises(values: Sequence[float]) -> bool:
    """Return whether finite, equally spaced values rise by more than chance; never below `MIN_POINTS` values."""
    if len(values) < MIN_POINTS:
        return False
    return trend(thinned(values)).p_rising < (SHORT_P if len(values) < LONG_POINTS else LONG_P)


def chance_of_rise(runs: Sequence[Sequence[float]]) -> float:
    """Return the one-sided p value that runs rise together: Mann-Kendall run by run, z values added (Stouffer).

    A t test of the runs' slopes would know as many values as there are runs, and miss one growth of 45 % in ten at five
    runs of 25 steps. Raises as `mann_kendall_p_rising`.
    """
    normal = statistics.NormalDist()
    zs = [normal.inv_cdf(min(max(1.0 - mann_kendall_p_rising(run), TINY_P), 1.0 - TINY_P)) for run in runs]
    return 1.0 - normal.cdf(sum(zs) / math.sqrt(len(zs)))


def thinned(values: Sequence[float], at_most: int = MAX_POINTS) -> list[float]:
    """Return means of equal blocks, at most ``at_most`` of them: a test over all pairs of a long log stays short."""
    size = max(1, math.ceil(len(values) / at_most))
    return [statistics.fmean(values[i : i + size]) for i in range(0, len(values), size)]
