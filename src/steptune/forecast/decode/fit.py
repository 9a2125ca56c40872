"""How much of the peaks an engine reaches: nine factors, shrunk to priors, from a few measured steps.

    seconds = sum over terms of exp(factor) x term

The surprise: three points fit nine factors, because the points only move what they speak of; the rest stays at the
priors. The largest posterior is found by Gauss-Newton in the space of the points (as many equations as points), so
neither a library nor the inverse of a large matrix is needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from steptune.core.errors import explain
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.terms import Terms

LAYER_S = 20e-6
"""Launches and gaps of one layer at factor 1, in seconds. Scale only: its prior is fitted."""

EXCHANGE_S = 4e-6
"""Latency of one exchange between two devices at factor 1, in seconds. Scale only."""

ROW_S = 20e-6
"""Sampling and scheduling of one sequence at factor 1, in seconds. Scale only."""

MOST_ROUNDS = 30
LARGEST_STEP = 1.0
"""Largest change of a log factor in one round: keeps the linearisation honest."""
SETTLED = 1e-6


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """Log factors of one engine are drawn around these: ``Prior(mean=0.9, sd=0.5)``."""

    mean: float
    sd: float


PRIORS: Final[tuple[tuple[str, Prior], ...]] = (
    ("layers", Prior(mean=0.38, sd=0.49)),
    ("exchanges", Prior(mean=0.25, sd=0.53)),
    ("weights", Prior(mean=0.29, sd=0.46)),
    ("cache", Prior(mean=0.39, sd=0.75)),
    ("compute", Prior(mean=0.72, sd=0.52)),
    ("prefill", Prior(mean=1.00, sd=0.45)),
    ("started", Prior(mean=0.49, sd=0.51)),
    ("link", Prior(mean=0.52, sd=0.51)),
    ("rows", Prior(mean=-0.11, sd=0.53)),
)
"""By `bench/decode_rows_fit.py` on the half of the groups that a hash names; no row of the other half was seen."""

POINT_LOG_SD = 0.05
"""Standard deviation of the log of a measured step about the model. Fitted with the priors."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Efficiency:
    """What a fit leaves: log factors, and how the points that made them still pull on a forecast."""

    log_factors: tuple[float, ...]
    gradients: tuple[tuple[float, ...], ...]
    """Of the log seconds of each point by each log factor."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the points under the priors, with their noise."""

    def seconds(self, work: Terms) -> float:
        """Return the seconds of a step."""
        return _seconds(self.log_factors, features(work))

    def log_sd(self, work: Terms) -> float:
        """Return the standard deviation of the log of those seconds that the factors' own uncertainty leaves."""
        own = _gradient(self.log_factors, features(work))
        prior = math.fsum(p.sd**2 * g * g for (_, p), g in zip(PRIORS, own, strict=True))
        shared = [_product(own, row) for row in self.gradients]
        known = math.fsum(a * b for a, b in zip(shared, solve(self.covariance, shared), strict=True))
        return math.sqrt(max(0.0, prior - known))


def fit(points: Sequence[tuple[Terms, float]]) -> Efficiency:
    """Return the factors of largest posterior given (terms, measured seconds).

    Raises:
        ForecastError: there is no point, or seconds are not positive and finite.
    """
    if not points or not all(math.isfinite(s) and s > 0 for _, s in points):
        raise ForecastError(
            explain(
                "decode cannot be fitted to these points",
                got=f"seconds {[s for _, s in points]}",
                allowed="one point or more, each of positive finite seconds",
                hint="measure the time between tokens at the lowest, a middle and the highest number of sequences",
            )
        )
    rows = [features(work) for work, _ in points]
    log_seconds = [math.log(seconds) for _, seconds in points]
    means = [prior.mean for _, prior in PRIORS]
    factors = means
    for _ in range(MOST_ROUNDS):
        gradients, covariance = _linearised(factors, rows)
        left = [
            y
            - math.log(_seconds(factors, row))
            + math.fsum(g * (f - m) for g, f, m in zip(slope, factors, means, strict=True))
            for y, row, slope in zip(log_seconds, rows, gradients, strict=True)
        ]
        pulls = solve(covariance, left)
        aim = [
            prior.mean + prior.sd**2 * math.fsum(pull * slope[i] for pull, slope in zip(pulls, gradients, strict=True))
            for i, (_, prior) in enumerate(PRIORS)
        ]
        moves = [min(LARGEST_STEP, max(-LARGEST_STEP, a - f)) for a, f in zip(aim, factors, strict=True)]
        factors = [f + move for f, move in zip(factors, moves, strict=True)]
        if max(map(abs, moves)) < SETTLED:
            break
    gradients, covariance = _linearised(factors, rows)
    return Efficiency(log_factors=tuple(factors), gradients=gradients, covariance=covariance)


def features(work: Terms) -> tuple[float, ...]:
    """Return the terms in seconds at factor 1, in the order of the priors."""
    return (
        LAYER_S * work.layers,
        EXCHANGE_S * work.exchanges,
        work.weights_s,
        work.cache_s,
        work.compute_s,
        work.prefill_s,
        work.started_s,
        work.link_s,
        ROW_S * work.rows,
    )


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return x of matrix x = right, for a symmetric positive definite matrix, by Gaussian elimination.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    [1.0, 0.5]
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        for below in rows[i + 1 :]:
            part = below[i] / rows[i][i]
            for k in range(i, n + 1):
                below[k] -= part * rows[i][k]
    found = [0.0] * n
    for i in reversed(range(n)):
        found[i] = (rows[i][n] - math.fsum(rows[i][k] * found[k] for k in range(i + 1, n))) / rows[i][i]
    return found


def _linearised(
    factors: Sequence[float], rows: Sequence[Sequence[float]]
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    gradients = tuple(_gradient(factors, row) for row in rows)
    covariance = tuple(
        tuple(_product(a, b) + (POINT_LOG_SD**2 if i == j else 0.0) for j, b in enumerate(gradients))
        for i, a in enumerate(gradients)
    )
    return gradients, covariance


def _seconds(factors: Sequence[float], row: Sequence[float]) -> float:
    return math.fsum(math.exp(f) * x for f, x in zip(factors, row, strict=True))


def _gradient(factors: Sequence[float], row: Sequence[float]) -> tuple[float, ...]:
    parts = [math.exp(f) * x for f, x in zip(factors, row, strict=True)]
    whole = math.fsum(parts)
    return tuple(part / whole for part in parts)


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the covariance that the priors give to two points."""
    return math.fsum(p.sd**2 * a * b for (_, p), a, b in zip(PRIORS, one, other, strict=True))
