"""Prices one repetition of a primitive off the measured cost curves.

More work is never cheaper: points that fall are averaged with their neighbours (`rising`), and below the smallest
measured size a price falls no faster than in proportion. Two samples of a busy moment once made a curve so steep that a
half as large micro-batch was to cost a fifth, and training 0.025 s where 0.100 s were measured (2026-11-30).

Surprise: a curve is found by the settings *it* was measured under, not by those the work names. A curve
measured under ``{"rollout_threads": 1}`` prices any item whose settings say one rollout thread, whatever
else they say. No curve, no price: the work is refused, never guessed.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import final

from steptune.core.errors import StepTuneError, explain
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint
from steptune.core.work import IDLE_THREADS, WorkItem

SLEEP_SHARE = 0.5
"""Weight (of logs) of what threads that sleep when idle took in a probe, against what spinning ones took. In runs they
took about half of what a probe, which is alone, had said; why is a guess (docs/LAB.md, 2026-12-01). Prior: of 0, 0.5
and 1 it missed the 126 embedded forecasts of the second campaign least."""


class ForecastError(StepTuneError, LookupError):
    """The profile does not hold what a forecast of this work needs; the message says what to measure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """Cost of one repetition: ``Price(seconds=0.0031, reach=0.25)`` lies a quarter beyond the last point."""

    seconds: float
    reach: float
    """Distance beyond the curve's nearest end, as a part of that end's size; 0 inside the curve."""


@final
@dataclass(kw_only=True, slots=True)
class CostBook:
    """The curves of one profile, with every price asked before remembered (ranking asks the same ones often)."""

    curves: tuple[CostCurve, ...]
    _prices: dict[tuple[str, float, tuple[tuple[str, KnobValue], ...]], Price] = field(
        default_factory=dict[tuple[str, float, tuple[tuple[str, KnobValue], ...]], Price]
    )

    def price(self, item: WorkItem) -> Price:
        """Return the price of one repetition of ``item``.

        Raises:
            ForecastError: no curve was measured under the item's settings, or it has too few points.
        """
        key = (item.curve, item.x, tuple(item.when.items()))
        known = self._prices.get(key)
        if known is None:
            known = self._prices[key] = self._price(item)
        return known

    def _price(self, item: WorkItem) -> Price:
        curve = find_curve(self.curves, item.curve, item.when)
        price = price_at(curve, item.x)
        if IDLE_THREADS not in curve.when:
            return price
        spinning = {knob: value for knob, value in item.when.items() if knob != IDLE_THREADS}
        spun = price_at(find_curve(self.curves, item.curve, spinning), item.x)
        seconds = price.seconds**SLEEP_SHARE * spun.seconds ** (1 - SLEEP_SHARE)
        return Price(seconds=seconds, reach=max(price.reach, spun.reach))


def find_curve(curves: Sequence[CostCurve], name: str, when: Mapping[str, KnobValue]) -> CostCurve:
    """Return the curve called ``name`` whose own settings all agree with ``when``; the most specific one wins.

    Raises:
        ForecastError: there is none.
    """
    matches = [c for c in curves if c.name == name and _agrees(c.when, when)]
    if not matches:
        raise ForecastError(
            explain(
                f"no cost curve `{name}` was measured under these settings",
                got=_settings_text(when),
                allowed="; ".join(_settings_text(c.when) for c in curves if c.name == name) or "nothing measured",
                hint=f"measure `{name}` under {_settings_text(when)}",
            )
        )
    return max(matches, key=lambda c: len(c.when))


def price_at(curve: CostCurve, x: float) -> Price:
    """Interpolate linearly between rising points, extrapolate linearly beyond the ends (see the module's top).

    Raises:
        ForecastError: the curve has a single point and ``x`` is another size: its slope is unknown.
    """
    points = rising(curve.points)
    if len(points) == 1 and points[0].x == x:
        return Price(seconds=points[0].seconds, reach=0.0)
    if len(points) < 2:
        raise ForecastError(
            explain(
                f"cost curve `{curve.name}` under {_settings_text(curve.when)} has {len(points)} point(s)",
                got=f"a size of {x:g} {curve.unit}",
                allowed="two or more sizes, or the one that was measured",
                hint=f"measure `{curve.name}` at {x:g} {curve.unit}",
            )
        )
    return Price(seconds=_seconds_at(points, x), reach=_reach(points[0].x, points[-1].x, x))


def rising(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """Return the points with seconds that never fall: neighbours that do are given their mean (isotonic regression).

    >>> [p.seconds for p in rising([CurvePoint(x=1, seconds=2.0), CurvePoint(x=2, seconds=1.0)])]
    [1.5, 1.5]
    """
    runs: list[list[float]] = []
    for point in points:
        runs.append([point.seconds])
        while len(runs) > 1 and fmean(runs[-1]) < fmean(runs[-2]):
            runs[-2:] = [[*runs[-2], *runs[-1]]]
    levels = [fmean(run) for run in runs for _ in run]
    return tuple(p.model_copy(update={"seconds": level}) for p, level in zip(points, levels, strict=True))


def _seconds_at(points: Sequence[CurvePoint], x: float) -> float:
    first, last = points[0], points[-1]
    if x > last.x:
        # the last segment, unless it was levelled: then the whole curve's
        before = points[-2] if points[-2].seconds < last.seconds else first
        return _on_line(before, last, x)
    right = min(max(bisect_right([p.x for p in points], x), 1), len(points) - 1)
    seconds = _on_line(points[right - 1], points[right], x)
    if x < first.x and first.x > 0 and seconds < first.seconds * x / first.x:
        return first.seconds * x / first.x
    return seconds


def _on_line(a: CurvePoint, b: CurvePoint, x: float) -> float:
    return a.seconds + (b.seconds - a.seconds) * ((x - a.x) / (b.x - a.x))


def _reach(first_x: float, last_x: float, x: float) -> float:
    if x > last_x > 0:
        return (x - last_x) / last_x
    return (first_x - x) / first_x if first_x > 0 and x < first_x else 0.0


def _agrees(measured: Mapping[str, KnobValue], wanted: Mapping[str, KnobValue]) -> bool:
    return all(knob in wanted and wanted[knob] == value for knob, value in measured.items())


def _settings_text(when: Mapping[str, KnobValue]) -> str:
    return ", ".join(f"{knob}={value}" for knob, value in sorted(when.items())) or "any settings"
