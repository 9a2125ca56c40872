"""Small looks at a series that every health rule takes: recent values, thirds, and the finding they become."""

import math
import statistics
from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series
from steptune.stats.trend import MIN_POINTS, trend

RECENT = 8
"""Points that stand for "now": one bad step is a spike, eight are a state."""

SIGNIFICANT_P = 0.05
"""One-sided level at which a rise counts."""

MAX_TREND_POINTS = 200
"""Points of a trend test, which looks at all pairs: more would not change its verdict."""


def health_finding(code: str, title: str, evidence: tuple[Evidence, ...], severity: Severity) -> Finding:
    """Return a health finding; it never carries a share or a ceiling."""
    return Finding(code=f"health/{code}", kind=FindingKind.HEALTH, severity=severity, title=title, evidence=evidence)


def recent_median(series: Series) -> float:
    """Return the median of the last `RECENT` finite values, of which there must be one."""
    return statistics.median(series.finite()[-RECENT:])


def growth(values: Sequence[float]) -> float | None:
    """Return mean of the last third / mean of the first third, or None below four points or from a first of zero."""
    if len(values) < MIN_POINTS:
        return None
    third = max(len(values) // 3, 1)
    first, last = statistics.fmean(values[:third]), statistics.fmean(values[-third:])
    return last / first if first > 0 else None


def rises(values: Sequence[float]) -> bool:
    """Return whether the values rise by more than chance (Mann-Kendall, one-sided 5 %)."""
    return len(values) >= MIN_POINTS and trend(_thinned(values)).p_rising < SIGNIFICANT_P


def falls(values: Sequence[float]) -> bool:
    """Return whether the values fall by more than chance."""
    return rises([-value for value in values])


def _thinned(values: Sequence[float]) -> list[float]:
    """Means of equal blocks, so that a test over all pairs of a long log stays short."""
    size = math.ceil(len(values) / MAX_TREND_POINTS)
    return [statistics.fmean(values[i : i + size]) for i in range(0, len(values), size)]
