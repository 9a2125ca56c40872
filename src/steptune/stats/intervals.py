"""Confidence intervals of a mean and of a mean paired difference (Student's t).

The surprise: two values are enough for an interval, and it is then 12.7 standard errors wide on either side.
That is right: few repeats say little, and the width says it.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.stats.finite import require_finite
from steptune.stats.student_t import t_quantile

DEFAULT_CONFIDENCE = 0.95
"""Two-sided coverage of every interval a user sees unless its note says otherwise (house rule of `Estimate`)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A central value and its interval, without unit.

    Example: ``Interval(value=0.71, low=0.69, high=0.73, n=4, confidence=0.95)``.
    """

    value: float
    low: float
    high: float
    n: int
    """Independent observations (pairs, blocks) behind it."""
    confidence: float
    """Two-sided coverage, 0..1."""

    def estimate(self, *, unit: str, source: Source, note: str = "") -> Estimate:
        """Return it as an `Estimate`; a coverage other than 95 % is added to the note."""
        covers = "" if self.confidence == DEFAULT_CONFIDENCE else f"{self.confidence:.4g} interval"
        full_note = "; ".join(part for part in (note, covers) if part)
        return Estimate(
            value=self.value, low=self.low, high=self.high, unit=unit, source=source, n=self.n, note=full_note
        )


def mean_interval(values: Sequence[float], confidence: float = DEFAULT_CONFIDENCE) -> Interval:
    """Return the mean with its two-sided t interval: mean ± t(n-1) · sd / √n.

    Raises:
        ValueError: fewer than two values, or one that is missing or not finite.
    """
    kept = require_finite(values, at_least=2)
    n = len(kept)
    mean = statistics.fmean(kept)
    half = t_quantile(0.5 + confidence / 2, n - 1) * statistics.stdev(kept) / math.sqrt(n)
    return Interval(value=mean, low=mean - half, high=mean + half, n=n, confidence=confidence)


def paired_interval(
    candidate: Sequence[float], baseline: Sequence[float], confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Return the interval of the mean of candidate - baseline; position i of both is one pair.

    Raises:
        ValueError: the lists differ in length, have fewer than two pairs, or hold a value that is not finite.
    """
    return mean_interval([c - b for c, b in zip(candidate, baseline, strict=True)], confidence)


def mean_estimate(values: Sequence[float], unit: str) -> Estimate:
    """Return the mean of measured values as an Estimate, with its 95 % interval from two values on.

    Raises:
        ValueError: no value, or one that is not finite.
    """
    kept = require_finite(values, at_least=1)
    if len(kept) == 1:
        return Estimate(value=kept[0], unit=unit, source=Source.MEASURED, n=1)
    return mean_interval(kept).estimate(unit=unit, source=Source.MEASURED)
