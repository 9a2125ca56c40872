"""The common horizontal axis of a chart: from values to percent of the drawing's width."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

PAD_PERCENT = 1.5
"""Room left and right, so that a mark on the edge is not cut in half."""

MAX_TICKS = 5
"""Labels that fit side by side on a phone of 380 px."""

MIN_RELATIVE_WIDTH = 1e-9
"""Width of an axis, as a part of its largest value, below which its values are one: floats could not be told apart."""

NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Tick distances people read easily, times a power of ten."""


MIN_VALUE = 1e-200
"""Magnitude below which a value is drawn as zero: steps between ticks would be subnormal."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A linear axis: ``Axis(low=0.0, high=1.04)`` puts 0.52 at 50 percent."""

    low: float
    high: float

    def percent(self, value: float) -> float:
        """Return where ``value`` (finite) lies, in percent of the width, ends of the axis at the padding."""
        at = (value - self.low) / (self.high - self.low)
        return round(PAD_PERCENT + at * (100 - 2 * PAD_PERCENT), 2)

    def ticks(self) -> tuple[float, ...]:
        """Return at most `MAX_TICKS` round values on the axis."""
        rough = (self.high - self.low) / (MAX_TICKS - 1)
        power = 10 ** math.floor(math.log10(rough))
        step = next(nice * power for nice in NICE_STEPS if nice * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(count * step for count in range(first, last + 1))


def axis_over(values: Iterable[float | None], *, from_zero: bool) -> Axis:
    """Return an axis that shows every finite value; 0 to 1 when there is none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if from_zero:
        known.append(0.0)
    low, high = min(known, default=0.0), max(known, default=1.0)
    largest = max(abs(low), abs(high))
    if high - low <= MIN_RELATIVE_WIDTH * largest or largest < MIN_VALUE:
        return Axis(low=low, high=low + (largest if largest >= MIN_VALUE else 1.0))
    room = 0.0 if from_zero else 0.04 * (high - low)
    return Axis(low=low - room, high=high + room)
