"""Prices one repetition of a primitive off the measured cost curves.

Surprise: a curve is found by the settings *it* was measured under, not by those the work names. A curve
measured under ``{"rollout_threads": 1}`` prices any item whose settings say one rollout thread, whatever
else they say. No curve, no price: the work is refused, never guessed.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.errors import StepTuneError, explain
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint
from steptune.core.work import WorkItem


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
            known = self._prices[key] = price_at(find_curve(self.curves, item.curve, item.when), item.x)
        return known


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
    """Interpolate linearly between points, extrapolate linearly beyond the ends, never below zero seconds.

    Raises:
        ForecastError: the curve has a single point and ``x`` is another size: its slope is unknown.
    """
    points = curve.points
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
    right = min(max(bisect_right([p.x for p in points], x), 1), len(points) - 1)
    seconds = _on_line(points[right - 1], points[right], x)
    # not `max(0.0, seconds)`: that would turn a NaN into a free operation
    return Price(seconds=0.0 if seconds < 0 else seconds, reach=_reach(points[0].x, points[-1].x, x))


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
