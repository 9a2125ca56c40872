"""Curves of one primitive under many settings tell of each other: what a single sample cannot know.

A probe has seconds for dozens of settings, so a point rests on one or two samples, and one busy moment bends one curve.
But what a knob does to a price hardly depends on a third knob. So the logs of all points of one primitive are explained
by sizes, knobs and pairs of them (least squares with a small ridge), and what is left over is shrunk::

    ln price = sum of effects of (size, knobs, pairs)  +  w x left over        w = THREE_WAY_SD² / variance left over

The left-over part is real where three things interact and noise where a sample was unlucky; its size says which: if
it is no larger than `THREE_WAY_SD` nothing is changed. The surprise: the spread that is left is also the only
evidence of how noisy a probe was, and forecasts are widened by it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from steptune.core.profile import CostCurve
from steptune.forecast.solve import solve

THREE_WAY_SD = 0.05
"""Standard deviation (log) of what three knobs or sizes do together beyond their pairs. Prior."""

RIDGE = 0.25
"""Weight of a pair's pull to zero, in points: what a single point says of a pair is believed to 80 %. Prior."""

LEAST_RIDGE = 1e-3
"""Pull of a size or knob alone, in points: it only makes every system solvable. A price goes up fourfold with its size,
and a hundredth of that would be a bias."""

MIN_SPARE = 4
"""Points beyond the effects below which nothing is left to judge the noise by, and the curves stay."""

SIZE = "size"
"""Stands for a point's place in its curve among the factors; sizes of different layouts differ by a few positions."""

Factors = dict[str, str]

Column = tuple[tuple[str, str], ...]
"""An effect: the levels that a point has to have; none for the mean, two for a pair."""

Measured = tuple[tuple[tuple[str, str], ...], tuple[float, ...]]
"""A curve as far as it matters here: its settings as text, and its seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pooled:
    """``Pooled(curves=(...), noise_sd={"train": 0.11})``."""

    curves: tuple[CostCurve, ...]
    noise_sd: dict[str, float]
    """Standard deviation (log) of what effects and pairs leave over, by primitive; absent where nothing tells."""


def pool(curves: Sequence[CostCurve]) -> Pooled:
    """Return the curves in their order, each point drawn towards what all curves of its name say of it."""
    kept = list(curves)
    noise_sd: dict[str, float] = {}
    for name in dict.fromkeys(curve.name for curve in curves):
        places = [i for i, curve in enumerate(curves) if curve.name == name]
        own = [curves[i] for i in places]
        if not all(math.isfinite(p.seconds) and p.seconds > 0 for curve in own for p in curve.points):
            continue
        drawn = _drawn(tuple(map(_measured, own)))
        if drawn is not None:
            noise_sd[name] = drawn[1]
            for place, seconds in zip(places, drawn[0], strict=True):
                kept[place] = _with_seconds(curves[place], seconds)
    return Pooled(curves=tuple(kept), noise_sd=noise_sd)


def _measured(curve: CostCurve) -> Measured:
    when = tuple(sorted((knob, str(value)) for knob, value in curve.when.items()))
    return when, tuple(point.seconds for point in curve.points)


def _with_seconds(curve: CostCurve, seconds: Sequence[float]) -> CostCurve:
    points = (p.model_copy(update={"seconds": s}) for p, s in zip(curve.points, seconds, strict=True))
    return curve.model_copy(update={"points": tuple(points)})


@lru_cache(maxsize=16)
def _drawn(curves: tuple[Measured, ...]) -> tuple[list[list[float]], float] | None:
    """Return every curve's drawn seconds and the spread left over; None where there are too few points to tell."""
    factors_N = [{**dict(when), SIZE: str(i)} for when, seconds in curves for i in range(len(seconds))]
    log_N = [math.log(s) for _, seconds in curves for s in seconds]
    columns = _columns(factors_N)
    num_spare = len(log_N) - len(columns)
    if num_spare < MIN_SPARE:
        return None
    fitted_N = _fitted(factors_N, columns, log_N)
    left_N = [log - fitted for log, fitted in zip(log_N, fitted_N, strict=True)]
    variance = math.fsum(left**2 for left in left_N) / num_spare
    weight = min(1.0, THREE_WAY_SD**2 / variance) if variance > 0 else 1.0
    drawn = iter(fitted + weight * left for fitted, left in zip(fitted_N, left_N, strict=True))
    return [[math.exp(next(drawn)) for _ in seconds] for _, seconds in curves], math.sqrt(variance)


def _columns(factors_N: Sequence[Factors]) -> list[Column]:
    """Return the effects that a point has: the mean, levels of every factor but its first, pairs of them."""
    names = sorted({name for factors in factors_N for name in factors})
    levels = {name: sorted({factors.get(name, "") for factors in factors_N})[1:] for name in names}
    single = [((name, level),) for name in names for level in levels[name]]
    pairs = [(a + b) for a, b in itertools.combinations(single, 2) if a[0][0] != b[0][0]]
    return [c for c in [(), *single, *pairs] if any(_has(factors, c) for factors in factors_N)]


def _has(factors: Factors, column: Column) -> bool:
    return all(factors.get(name, "") == level for name, level in column)


def _fitted(factors_N: Sequence[Factors], columns: Sequence[Column], log_N: Sequence[float]) -> list[float]:
    """Return the fit of the effects; the mean is not drawn to zero."""
    rows = [[_has(factors, column) for column in columns] for factors in factors_N]
    mean = math.fsum(log_N) / len(log_N)
    width, pulls = range(len(columns)), (0.0, LEAST_RIDGE, RIDGE)
    normal = [[float(sum(row[i] and row[j] for row in rows)) for j in width] for i in width]
    for i, column in enumerate(columns):
        normal[i][i] += pulls[len(column)]
    right = [math.fsum(log - mean for row, log in zip(rows, log_N, strict=True) if row[i]) for i in width]
    effects = solve(normal, right)
    return [mean + math.fsum(e for has, e in zip(row, effects, strict=True) if has) for row in rows]
