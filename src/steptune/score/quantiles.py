"""Quantiles in which every job weighs the same, however many pairs it has: ten releases of one recipe are one job.

An infinite error is a value like any other: a crash must not leave the count.
"""

import math
from collections.abc import Mapping, Sequence


def equal_weight_quantile(errors_by_group: Mapping[str, Sequence[float]], q: float) -> float | None:
    """Return the q-quantile of errors of which each group holds the same total weight; None without any.

    The lower weighted quantile: the smallest error at which at least ``q`` of the weight lies at or below.

    Raises:
        ValueError: ``q`` outside 0..1, or an error that is NaN.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies in 0..1, got {q}")
    groups = [errors for errors in errors_by_group.values() if errors]
    weighted = sorted((error, 1 / len(errors)) for errors in groups for error in errors)
    if any(math.isnan(error) for error, _ in weighted):
        raise ValueError("an error is NaN; make it infinite or leave it out by name")
    if not weighted:
        return None
    target, total = q * len(groups), 0.0
    for error, weight in weighted:
        total += weight
        if total >= target * (1 - 1e-12):  # sums of 1/n fall short of a whole by rounding
            return error
    return weighted[-1][0]


def equal_weight_mean(values_by_group: Mapping[str, Sequence[float]]) -> float | None:
    """Return the mean over groups of the group means; None without any."""
    means = [math.fsum(values) / len(values) for values in values_by_group.values() if values]
    return math.fsum(means) / len(means) if means else None


def as_frac(log_error: float | None) -> float | None:
    """Return a log error as a fraction: ln 1.12 gives 0.12."""
    if log_error is None or math.isinf(log_error):
        return log_error
    return math.expm1(log_error)
