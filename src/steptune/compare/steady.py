"""Is a side steady? A run that still ramps up looks like a speed-up that never ends.

The surprise: step times alone hide it. In P01 they fall 42.8, 32.2, 15.3 s while the asynchronous level climbs 0, 1,
2; three steps are too few for any test of a trend, so a climbing level and a fall that large speak for themselves.
"""

from itertools import pairwise

from steptune.compare.side import Side
from steptune.stats.trend import MIN_POINTS, trend

FALL_FRAC = 0.7
"""Last over first step time of a few steps that fall all the way, at or below which they count as a ramp-up."""

TREND_P = 0.01
"""One-sided chance below which a trend of longer runs counts; two sides and two directions are looked at."""

TREND_FRAC = 0.15
"""Change over the whole run, as a part of its mean, below which a trend does not matter."""

MAX_POINTS = 100
"""Longer runs are averaged into this many blocks; 100 points make 5,000 pairs."""

MIN_FALLING = 3
"""Fewest steps that can fall "all the way"."""


def unsteady_reason(side: Side) -> str | None:
    """Return why the side's steps may not be compared yet, or None."""
    levels = side.steps("async_level")
    if len(levels) > 1 and levels[-1] > levels[0] and all(late >= early for early, late in pairwise(levels)):
        return f"{side.label} ramps up: its asynchronous level climbs from {levels[0]:g} to {levels[-1]:g}"
    times = _blocks(side.steps("step_time"))
    return _falling(side, times) if len(times) < MIN_POINTS else _trending(side, times)


def _blocks(times: list[float]) -> list[float]:
    """Means of consecutive steps, at most MAX_POINTS of them: the test looks at every pair."""
    size = -(-len(times) // MAX_POINTS)
    if size <= 1:
        return times
    return [sum(block) / len(block) for i in range(0, len(times), size) if (block := times[i : i + size])]


def _falling(side: Side, times: list[float]) -> str | None:
    if len(times) < MIN_FALLING or times[-1] > FALL_FRAC * times[0]:
        return None
    if not all(late < early for early, late in pairwise(times)):
        return None
    return f"{side.label} ramps up: its steps fall from {times[0]:.3g} to {times[-1]:.3g} s"


def _trending(side: Side, times: list[float]) -> str | None:
    mean = sum(times) / len(times)
    for values, word in ((times, "longer"), ([-value for value in times], "shorter")):
        found = trend(values)
        if found.p_rising < TREND_P and found.slope * len(times) > TREND_FRAC * mean:
            return f"{side.label} is not steady: its steps get {word} all the way ({times[0]:.3g} to {times[-1]:.3g} s)"
    return None
