"""Seconds of one decode iteration, t(running rows, cached tokens), read off the drain of one batch.

::

    running rows   64 64 64 61 55 40 22 9 4 1 1 1      one batch, nobody admitted
    seconds        |------------ falls --------------|  one point per iteration or per logged interval

While a batch drains, running sequences fall from N to 1, so a single run of the job measures the whole curve up to
N: no sweep is needed. The surprise: rows and cached tokens fall together in a drain. The slope per cached token is
therefore taken only from pairs of intervals with the *same* running rows; where those cannot tell it is zero.

Knots are medians, which one slow iteration in a hundred does not move; but time adds up by its mean. What all
iterations took beyond the knots is kept as a stall per iteration. It adds: a pause is no longer for having more rows.

The curve never falls with more rows: a measured dip is noise, and pooling adjacent violators takes it out
(Barlow et al. 1972), so more work is never forecast to be faster.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import final

from steptune.core.errors import explain
from steptune.core.profile import CostCurve
from steptune.forecast.curve import ForecastError

CACHE_SLOPE_T = 3.0
"""Standard errors by which the slope per cached token must exceed zero to be believed. Prior."""

KNOTS_PER_OCTAVE = 2
"""Knots per doubling of rows above EXACT_ROWS: a drain spends few iterations at any one large number. Prior."""

EXACT_ROWS = 4
"""Running rows up to which every number is a knot of its own: the tail is spent there."""

MOST_STALL_SD = 1.0
"""Error of the log of a stall beyond which it is not known at all: one pause seen has an error of 1 (Poisson)."""

TAIL_FROM_FRAC = 0.4
"""The line beyond the last knot is the one from this part of its rows to it: two neighbours would amplify noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainPoint:
    """``DrainPoint(running=61, cached_tokens=48_200, seconds=0.0121)``: one iteration, or an interval's mean."""

    running: float
    cached_tokens: float
    seconds: float
    """Per iteration."""
    iterations: float = 1.0
    """Iterations behind it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeCurve:
    """Lines between knots: ``DecodeCurve(rows=(1, 64), seconds=(0.008, 0.012))``."""

    rows: tuple[float, ...]
    """Running rows, increasing."""
    seconds: tuple[float, ...]
    """Per iteration with an empty cache; never falling."""
    per_cached_token_s: float = 0.0
    tail_slope_s: float | None = None
    """Seconds per row beyond the last knot; None is the last two knots' line."""
    log_sd: float = 0.0
    """Standard deviation of the log of one iteration about the curve."""
    stall_s: float = 0.0
    """Seconds of a mean iteration that the knots leave out, whatever its rows: an engine that stands still at times."""
    stall_log_sd: float = 0.0
    """Standard error of the log of `stall_s`: pauses are few, so another profile would have had more or fewer."""
    _table: dict[int, float] = field(default_factory=dict[int, float], compare=False, repr=False)

    def __post_init__(self) -> None:
        rising = all(b > a for a, b in zip(self.rows, self.rows[1:], strict=False))
        sound = all(math.isfinite(s) and s >= 0 for s in (*self.seconds, self.per_cached_token_s, self.stall_s))
        if not (self.rows and len(self.rows) == len(self.seconds) and rising and sound):
            raise ForecastError(
                explain(
                    "this is no decode curve",
                    got=f"rows {self.rows}, seconds {self.seconds}, {self.per_cached_token_s} s per cached token",
                    allowed="one knot or more, rows increasing, seconds finite and not negative",
                    hint="profile one step with its decode iterations",
                )
            )

    def base_s(self, running: int) -> float:
        """Return seconds of an iteration of ``running`` rows whose cache is empty; zero rows take no time."""
        if running <= 0:
            return 0.0
        known = self._table.get(running)
        if known is None:
            known = self._table[running] = self._line(running)
        # outside the table, which a copy with another stall shares
        return known + self.stall_s

    def iteration_s(self, running: int, cached_tokens: float) -> float:
        """Return seconds of one iteration."""
        return self.base_s(running) + self.per_cached_token_s * cached_tokens

    def _line(self, running: float) -> float:
        rows, seconds = self.rows, self.seconds
        if len(rows) == 1 or running <= rows[0]:
            return seconds[0] if running <= rows[0] else seconds[0] + (self.tail_slope_s or 0.0) * (running - rows[0])
        if running >= rows[-1]:
            slope = self.tail_slope_s
            if slope is None:
                slope = (seconds[-1] - seconds[-2]) / (rows[-1] - rows[-2])
            return seconds[-1] + slope * (running - rows[-1])
        right = bisect_right(rows, running)
        part = (running - rows[right - 1]) / (rows[right] - rows[right - 1])
        return seconds[right - 1] + part * (seconds[right] - seconds[right - 1])


def curve_from_drain(points: Sequence[DrainPoint]) -> DecodeCurve:
    """Turn the drain of a batch into the curve.

    Raises:
        ForecastError: there is no point with running rows and a positive, finite duration.
    """
    used = [p for p in points if p.running >= 1 and math.isfinite(p.seconds) and p.seconds > 0 and p.iterations > 0]
    if not used:
        raise ForecastError(
            explain(
                "the drain holds no decode iteration",
                got=f"{len(points)} points",
                allowed="running rows of 1 or more with positive seconds",
                hint="log running rows and seconds per iteration over one whole batch",
            )
        )
    slope = _cache_slope(used)
    bins: dict[int, list[DrainPoint]] = {}
    for point in used:
        bins.setdefault(_bin(point.running), []).append(point)
    rows = [_mean([p.running for p in own], own) for _, own in sorted(bins.items())]
    raw = [median(p.seconds - slope * p.cached_tokens for p in own) for _, own in sorted(bins.items())]
    weights = [sum(p.iterations for p in own) for _, own in sorted(bins.items())]
    seconds = never_falling([max(s, 0.0) for s in raw], weights)
    made = DecodeCurve(
        rows=tuple(rows), seconds=tuple(seconds), per_cached_token_s=slope, tail_slope_s=_tail_slope(rows, seconds)
    )
    errors = [math.log(p.seconds / s) for p in used if (s := made.iteration_s(round(p.running), p.cached_tokens)) > 0]
    spread = math.sqrt(math.fsum(e * e for e in errors) / len(errors)) if errors else 0.0
    stall_s, stall_log_sd = _stall(made, used)
    return replace(made, log_sd=spread, stall_s=stall_s, stall_log_sd=stall_log_sd)


def _stall(curve: DecodeCurve, points: Sequence[DrainPoint]) -> tuple[float, float]:
    """Return what all iterations took beyond the curve, per iteration, and its error in logs.

    Mean minus median, and never below 0. The error is the spread over the root of the number, at most MOST_STALL_SD.
    """
    beyond = [p.iterations * (p.seconds - curve.iteration_s(round(p.running), p.cached_tokens)) for p in points]
    sum_s = math.fsum(beyond)
    if sum_s <= 0:
        return 0.0, 0.0
    mean_s = sum_s / len(beyond)
    error_s = math.sqrt(math.fsum((b - mean_s) ** 2 for b in beyond))
    return sum_s / math.fsum(p.iterations for p in points), min(error_s / sum_s, MOST_STALL_SD)


def curve_from_costs(curve: CostCurve) -> DecodeCurve:
    """Turn a probed cost curve over running rows (a profile's `decode`) into a decode curve."""
    seconds = never_falling([p.seconds for p in curve.points], [1.0] * len(curve.points))
    return DecodeCurve(rows=tuple(p.x for p in curve.points), seconds=tuple(seconds))


def never_falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the nearest sequence that never falls, by pooling adjacent violators.

    >>> never_falling([1.0, 3.0, 2.0], [1.0, 1.0, 1.0])
    [1.0, 2.5, 2.5]
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, wa, na), (b, wb, nb) = pools[-2:]
            pools[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return [value for value, _, count in pools for _ in range(count)]


def _bin(running: float) -> int:
    if running <= EXACT_ROWS:
        return round(running)
    return EXACT_ROWS + 1 + int(KNOTS_PER_OCTAVE * math.log2(running / EXACT_ROWS))


def _mean(values: Sequence[float], own: Sequence[DrainPoint]) -> float:
    weights = [p.iterations for p in own]
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def _tail_slope(rows: Sequence[float], seconds: Sequence[float]) -> float:
    if len(rows) < 2:
        return 0.0
    left = max((i for i in range(len(rows) - 1) if rows[i] <= TAIL_FROM_FRAC * rows[-1]), default=0)
    return (seconds[-1] - seconds[left]) / (rows[-1] - rows[left])


def _cache_slope(points: Sequence[DrainPoint]) -> float:
    """Least squares within equal running rows: no other difference between two points is the cache's doing."""
    same: dict[float, list[DrainPoint]] = {}
    for point in points:
        same.setdefault(point.running, []).append(point)
    pairs: list[tuple[float, float]] = []
    for own in same.values():
        x, y = _mean([p.cached_tokens for p in own], own), _mean([p.seconds for p in own], own)
        pairs += [(p.cached_tokens - x, p.seconds - y) for p in own]
    sxx = math.fsum(x * x for x, _ in pairs)
    freedom = len(points) - len(same) - 1
    if sxx <= 0 or freedom < 1:
        return 0.0
    slope = math.fsum(x * y for x, y in pairs) / sxx
    error = math.sqrt(math.fsum((y - slope * x) ** 2 for x, y in pairs) / freedom / sxx)
    return slope if slope > CACHE_SLOPE_T * error else 0.0
