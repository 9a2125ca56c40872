"""Pairs of cost curves that differ in one knob: what that knob costs, without interpolating anything."""

import math
from collections.abc import Mapping, Sequence

from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve


def turned_ratio(
    curves: Sequence[CostCurve], name: str, settings: Mapping[str, KnobValue], *, knob: str, to: KnobValue
) -> float | None:
    """Return seconds of primitive ``name`` with ``knob`` at ``to`` / seconds as set now, all else equal.

    Taken at the largest size both curves have, the worst over pairs of curves; None where no pair was
    measured or one of its times is not a positive number.
    """
    now = [c for c in curves if c.name == name and knob in c.when and _agrees(c.when, settings)]
    pairs = [(a, b) for a in now for b in curves if b.name == name and b.when == {**a.when, knob: to}]
    ratios = [ratio for a, b in pairs for ratio in _at_largest_common_size(a, b)]
    return max(ratios) if ratios and all(math.isfinite(r) and r > 0 for r in ratios) else None


def _agrees(when: Mapping[str, KnobValue], settings: Mapping[str, KnobValue]) -> bool:
    return all(knob in settings and settings[knob] == value for knob, value in when.items())


def _at_largest_common_size(now: CostCurve, other: CostCurve) -> list[float]:
    other_s = {p.x: p.seconds for p in other.points}
    common = [p for p in now.points if p.x in other_s and p.seconds > 0]
    return [other_s[common[-1].x] / common[-1].seconds] if common else []
