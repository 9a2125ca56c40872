"""Holds series of a running job against trip-wires: which have tripped, since which step, on which line.

Surprise: one slow step trips nothing. A limit of the owner (lag, memory) is broken by a single step; all else is the
median of the last `WINDOW` steps, because a validation, a checkpoint or one unlucky batch is no change of regime.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from steptune.core.decision import Tripwire
from steptune.core.paste import Paste, Series, SeriesPoint, ValueStatus
from steptune.core.profile import Origin
from steptune.core.watched import Alarm, AlarmKind

WINDOW = 5
"""Steps whose median is held against a bound: two odd ones of five do not move it, a change shows after three."""

MIN_VALUES = 3
"""Values below which a median says nothing of a regime."""

LIMITS = frozenset({"lag_max", "memory_peak_bytes"})
"""Metrics whose bound no single step may pass: they are the owner's limits."""

GIB = 1024**3

TOLD_AS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "mismatch_k3": (("mismatch_k3", 1),),
    "lag_max": (("lag_max", 1), ("staleness_mean", 1), ("async_level", 1)),
    "ess_frac": (("ess_frac", 1),),
    "truncated_frac": (("clipped_frac", 1),),
    "step_time_s": (("step_time", 1),),
    "memory_peak_bytes": (("memory_reserved_gib", GIB), ("memory_allocated_gib", GIB)),
    "completion_len_max": (("completion_max", 1),),
    "completion_len_mean": (("completion_mean", 1),),
    "gen_batches": (("gen_batches", 1),),
    "tool_time_s": (("tool_time", 1),),
}
"""Wire metric -> canonical series that tell it and the factor to its unit, best first. A mean age above the bound
proves that the largest is; one below proves nothing (`PROVES_ONLY_TRIPS`)."""

PROVES_ONLY_TRIPS = frozenset({"staleness_mean"})
"""Series that can trip their wire but not clear it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One wire held against a log: an alarm, or why it could not be judged, or neither (it holds)."""

    wire: Tripwire
    alarm: Alarm | None = None
    why_unjudged: str = ""


def judge_wires(paste: Paste, wires: Sequence[Tripwire]) -> list[Judged]:
    """Return every wire's judgement; of several tripped wires on one metric the first alone is an alarm."""
    judged: list[Judged] = []
    tripped: set[str] = set()
    for wire in wires:
        if wire.metric in tripped:
            continue
        one = _judge(paste, wire)
        if one.alarm is not None:
            tripped.add(wire.metric)
        judged.append(one)
    return judged


def _judge(paste: Paste, wire: Tripwire) -> Judged:
    found = _series(paste, wire.metric)
    if found is None:
        return Judged(wire=wire, why_unjudged="the log does not tell it")
    series, factor = found
    points = [p for p in since_restart(series.points) if p.status is not ValueStatus.IMPLAUSIBLE]
    values = [p.value * factor for p in points]
    is_limit = wire.metric in LIMITS
    if len(values) < (1 if is_limit else MIN_VALUES):
        return Judged(wire=wire, why_unjudged=f"{len(values)} of {MIN_VALUES} steps so far")
    if any(math.isnan(value) for value in values[-WINDOW:]):
        return Judged(wire=wire, why_unjudged=f"`{series.key}` is NaN in the last {WINDOW} steps")
    first = _limit_broken(values, wire) if is_limit else _since(values, wire)
    if first is not None:
        return Judged(wire=wire, alarm=_alarm(wire, series, points[first], values, first))
    if series.name in PROVES_ONLY_TRIPS:
        return Judged(
            wire=wire, why_unjudged=f"`{series.key}` is a mean: it is below the bound, the largest may not be"
        )
    return Judged(wire=wire)


def _series(paste: Paste, metric: str) -> tuple[Series, float] | None:
    for name, factor in TOLD_AS.get(metric, ((metric, 1),)):
        found = paste.get_series(name)
        if found is not None and found.points:
            return found, factor
    return None


def since_restart(points: Sequence[SeriesPoint]) -> Sequence[SeriesPoint]:
    """Return the points of the last attempt: those after the last place where step numbers fall."""
    start = 0
    for index in range(1, len(points)):
        before, after = points[index - 1].step, points[index].step
        if before is not None and after is not None and after < before:
            start = index
    return points[start:]


def _limit_broken(values: Sequence[float], wire: Tripwire) -> int | None:
    return next((index for index, value in enumerate(values) if _is_beyond(value, wire)), None)


def _since(values: Sequence[float], wire: Tripwire) -> int | None:
    """Return the first step of the unbroken stretch whose running medians are beyond the bound up to now, or None."""
    first: int | None = None
    for end in range(len(values), MIN_VALUES - 1, -1):
        window = values[max(0, end - WINDOW) : end]
        if not _is_beyond(median(window), wire):
            break
        first = max(0, end - WINDOW)
    if first is None:
        return None
    return next(index for index in range(first, len(values)) if _is_beyond(values[index], wire))


def _is_beyond(value: float, wire: Tripwire) -> bool:
    return value > wire.bound if wire.above else value < wire.bound


def _alarm(wire: Tripwire, series: Series, point: SeriesPoint, values: Sequence[float], first: int) -> Alarm:
    side = "above" if wire.above else "below"
    if wire.metric in LIMITS:
        seen = f"{values[first]:.4g}"
    else:
        seen = f"{median(values[-WINDOW:]):.4g} (median of the last {min(WINDOW, len(values))} steps)"
    return Alarm(
        kind=AlarmKind.WIRE,
        metric=wire.metric,
        text=f"`{wire.metric}` is {seen}, {side} {wire.bound:.4g}",
        since_step=point.step,
        origin=Origin(path=series.path, line=point.line, key=series.key),
        action=wire.action,
    )
