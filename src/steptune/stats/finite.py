"""The one gate that keeps None, NaN and infinity out of every statistic.

The surprise: both functions look at all values, so one NaN among a thousand good steps is enough to be
refused. Dropping it silently would turn a broken run into a slightly shorter one.
"""

import math
from collections.abc import Iterable


def finite_or_none(values: Iterable[float | None]) -> tuple[float, ...] | None:
    """Return the values as floats, or None if any of them is missing, NaN or infinite."""
    kept: list[float] = []
    for value in values:
        if value is None or not math.isfinite(value):
            return None
        kept.append(float(value))
    return tuple(kept)


def require_finite(values: Iterable[float | None], *, at_least: int) -> tuple[float, ...]:
    """Return the values as floats.

    Raises:
        ValueError: one is missing, NaN or infinite, or there are fewer than ``at_least``.
    """
    given = tuple(values)
    kept = finite_or_none(given)
    if kept is None or len(kept) < at_least:
        raise ValueError(f"need at least {at_least} finite values, got {given}")
    return kept
