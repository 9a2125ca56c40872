"""The ratio of two runs' rates with an interval that knows how far two launches of one configuration lie apart.

Steps of one launch say nothing about the next launch, so the interval is Welch's on the logarithms, widened by the
spread between launches. With one step a side there is no spread to see at all: then a public one stands in.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.stats.noise import Z_95
from steptune.stats.student_t import t_quantile

SINGLE_STEP_CV = 0.054
"""Coefficient of variation of one step over launches: six near-identical agentic runs, 588 s to 677 s (S08 in
tests/pasted). Two single steps then differ by up to 1.96 * sqrt(2) * 5.4 % = 15 % by chance."""

LAUNCH_CV = 0.033
"""Coefficient of variation between launches: published steps and reruns of them, 112 and 116 s, 122 and 129 s (N13 in
tests/pasted, NVIDIA-NeMo/RL#959). Two launches then differ by up to 9 % by chance; an A/A repeat gives a better one."""

MAX_LOG = 300.0
"""Log ratios are cut off here: beyond stands nothing but broken clocks, and floats end at 709."""

CONFIDENCE = 0.95
"""Two-sided coverage."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LogMean:
    """Mean of the logarithms of one side's values, its variance and how many there were."""

    mean: float
    variance: float
    """Of the mean, within the launch; 0 for one value."""
    n: int


def log_mean(values: Sequence[float] | Estimate) -> LogMean | None:
    """Return the log mean of positive values or of an estimate; None where a value is not finite and positive."""
    if isinstance(values, Estimate):
        return _of_estimate(values)
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    logs = [math.log(value) for value in values]
    spread = statistics.variance(logs) / len(logs) if len(logs) > 1 else 0.0
    return LogMean(mean=statistics.fmean(logs), variance=spread, n=len(logs))


def ratio_of(above: LogMean, below: LogMean, *, note: str) -> Estimate:
    """Return above / below with its interval, in times (unit ``x``)."""
    centre, half = above.mean - below.mean, half_width(above, below)
    return Estimate(
        value=_exp(centre),
        low=_exp(centre - half),
        high=_exp(centre + half),
        unit="x",
        source=Source.DERIVED,
        n=min(above.n, below.n),
        note=note,
    )


def half_width(one: LogMean, other: LogMean) -> float:
    """Return the half-width of the interval of the log ratio: Welch's, widened by the spread between launches."""
    within = one.variance + other.variance
    steps = t_quantile(0.5 + CONFIDENCE / 2, _freedom(one, other)) * math.sqrt(within) if within > 0 else 0.0
    launches = Z_95 * math.sqrt(sum(_floor_cv(side.n) ** 2 for side in (one, other)))
    return math.hypot(steps, launches)


def _exp(log_ratio: float) -> float:
    return math.exp(max(-MAX_LOG, min(MAX_LOG, log_ratio)))


def _floor_cv(n: int) -> float:
    return SINGLE_STEP_CV if n <= 1 else LAUNCH_CV


def _freedom(one: LogMean, other: LogMean) -> int:
    """Welch-Satterthwaite degrees of freedom, rounded down to at least 1."""
    parts = [(side.variance, side.n) for side in (one, other) if side.n > 1 and side.variance > 0]
    below = sum(variance**2 / (n - 1) for variance, n in parts)
    return max(1, int(sum(variance for variance, _ in parts) ** 2 / below)) if below > 0 else 1


def _of_estimate(estimate: Estimate) -> LogMean | None:
    if not math.isfinite(estimate.value) or estimate.value <= 0:
        return None
    n = estimate.n or 1
    variance = 0.0
    if n > 1 and estimate.low is not None and estimate.high is not None:
        half = (estimate.high - estimate.low) / 2
        variance = (half / t_quantile(0.5 + CONFIDENCE / 2, n - 1) / estimate.value) ** 2
    return LogMean(mean=math.log(estimate.value), variance=variance, n=n)
