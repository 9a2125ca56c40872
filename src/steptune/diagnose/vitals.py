"""Small looks at a series that every health rule takes: recent values, whole steps, thirds, and their finding.

The surprise: points are not steps. Ranks and micro batches print one step several times, and notes of an experiment
hold several runs, in which a jump from one run to the next is no trend of either.
"""

import statistics
from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series, SeriesPoint, ValueStatus
from steptune.stats.trend import MIN_POINTS

RECENT = 8
"""Points that stand for "now": one bad step is a spike, eight are a state."""


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
    first, last = ends(values)
    return last / first if first > 0 else None


def ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the means of the first and of the last third: single values are no ends of a trend."""
    third = max(len(values) // 3, 1)
    return statistics.fmean(values[:third]), statistics.fmean(values[-third:])


def whole_steps(series: Series) -> list[float]:
    """Return one finite value a step, the mean of its points, over the last run of the input.

    A step number that falls starts another run; points without a number are steps of their own.
    """
    steps: list[list[float]] = []
    last: int | None = None
    for point in series.points:
        if not _counts(point):
            continue
        if point.step is not None and last is not None and point.step < last:
            steps = []
        if point.step is not None and point.step == last and steps:
            steps[-1].append(point.value)
        else:
            steps.append([point.value])
        last = point.step if point.step is not None else last
    return [statistics.fmean(values) for values in steps]


def _counts(point: SeriesPoint) -> bool:
    return abs(point.value) < float("inf") and point.status is not ValueStatus.IMPLAUSIBLE
