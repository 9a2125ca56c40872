"""Zeros that are roundings: a log of three decimals prints a KL of 0.0004 as 0.000.

The surprise: a single zero proves nothing, the company does. If every other number of the log has at most three
decimals, its zeros are "below 0.0005", and a rule that needs a zero must not fire on them.
"""

from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series
from steptune.diagnose.job import Job, origin_of

DECIMALS = 3
"""Digits of old verl lines (`%.3f`)."""

MIN_NONZERO = 8
"""Values without a fourth decimal from which it is a format and not chance."""

_COUNTS = ("seqlen", "length", "num_", "step", "count", "tokens")


def rounded_zeros(job: Job) -> list[Finding]:
    """Return one finding that names the series whose zeros are roundings."""
    fractions = [s for s in job.paste.series if not any(word in s.key for word in _COUNTS)]
    values = [p.value for s in fractions for p in s.points if p.value and abs(p.value) < float("inf")]
    if not _is_three_decimals(values):
        return []
    zeros = [s for s in fractions if any(p.value == 0 for p in s.points)]
    if not zeros:
        return []
    names = ", ".join(f"`{s.key}`" for s in zeros[:4]) + (f" and {len(zeros) - 4} more" if len(zeros) > 4 else "")
    title = f"0.000 means below 0.0005, not zero: the log prints three decimals ({names})"
    return [
        Finding(
            code="implausible/rounded_zero",
            kind=FindingKind.IMPLAUSIBLE,
            severity=Severity.INFO,
            title=title,
            evidence=tuple(_fact(s) for s in zeros[:4]),
        )
    ]


def _is_three_decimals(values: Sequence[float]) -> bool:
    """Whether the format has three decimals: enough fractions, none with a fourth digit, one that needs the third."""
    fractions = [v for v in values if _needs_more_than(v, 0)]
    if len(fractions) < MIN_NONZERO or any(_needs_more_than(v, DECIMALS) for v in fractions):
        return False
    return any(_needs_more_than(v, DECIMALS - 1) for v in fractions)


def _needs_more_than(value: float, decimals: int) -> bool:
    return abs(value - round(value, decimals)) > 1e-9


def _fact(series: Series) -> Evidence:
    at = next(i for i, point in enumerate(series.points) if point.value == 0)
    return Evidence(text=f"{series.key} 0.000", origin=origin_of(series, at))
