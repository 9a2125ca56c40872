"""What a measured ratio of times says about speed: four verdicts, and what could have been seen where it says nothing.

::

    ratio          0 ......... 1 - worth ......... 1 ......... >
    FASTER         high < 1 and value < 1 - worth
    SLOWER                                           low > 1
    NO_DIFFERENCE  low >= 1 - worth     (even its best case is no gain worth having)
    CANNOT_TELL    anything else: more of the same could decide
"""

import math
from enum import StrEnum

from steptune.core.estimate import Estimate
from steptune.stats.finite import finite_or_none
from steptune.stats.power import ONE_SIDED_CONFIDENCE, POWER, required_pairs, smallest_detectable_drop
from steptune.stats.student_t import t_quantile

MAX_LEAD_CHANCE = 0.1
"""One-sided chance up to which an unproven gain is followed. It costs confirmations, never a false claim: at 0.025 a
true 5 % gain at 5 % noise was lost by the trial in one session of four (simulated, 2026-11-30)."""


class Gain(StrEnum):
    """What the ratio says about speed, in the words of the report."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference worth having"
    CANNOT_TELL = "cannot tell"


def interval_of(ratio: Estimate) -> tuple[float, float, float] | None:
    """Return value, low and high of a ratio; None if one is missing, not finite, out of order or not above zero."""
    kept = finite_or_none((ratio.value, ratio.low, ratio.high))
    if kept is None:
        return None
    value, low, high = kept
    return (value, low, high) if value > 0 and low <= value <= high else None


def cannot_beat(low: float, worth_frac: float) -> bool:
    """Return whether a ratio whose optimistic end is ``low`` has no gain worth having to hope for."""
    return low >= 1.0 - worth_frac


def judge_gain(*, value: float, low: float, high: float, worth_frac: float) -> Gain:
    """Judge a ratio (new / old time, below 1 is faster) and its interval; gains below ``worth_frac`` do not count."""
    if high < 1.0 and value < 1.0 - worth_frac:
        return Gain.FASTER
    if low > 1.0:
        return Gain.SLOWER
    return Gain.NO_DIFFERENCE if cannot_beat(low, worth_frac) else Gain.CANNOT_TELL


def is_longer_step(step: Estimate, worth_frac: float) -> bool:
    """Return whether a step time / the baseline's is surely above 1, or more than ``worth_frac`` above it as measured.

    A ratio without an interval, or one that is not a number, counts as longer: no slower is what has to be shown.
    """
    interval = interval_of(step)
    return interval is None or interval[1] > 1.0 or interval[0] > 1.0 + worth_frac


def spread_of(ratio: Estimate, tail: float) -> float | None:
    """Return the standard deviation of one log ratio behind ``ratio``, whose interval leaves out ``tail`` on a side.

    None where the interval is broken or rests on fewer than two observations.
    """
    interval = interval_of(ratio)
    if interval is None or ratio.n is None or ratio.n < 2 or interval[1] <= 0:
        return None
    half = math.log(interval[2] / interval[1]) / 2
    return half / t_quantile(1.0 - tail, ratio.n - 1) * math.sqrt(ratio.n)


def is_lead(ratio: Estimate, tail: float, worth_frac: float) -> bool:
    """Return whether a gain that is not proven is likely enough to be worth proving (`MAX_LEAD_CHANCE`)."""
    sd = spread_of(ratio, tail)
    if sd is None or ratio.n is None or ratio.value >= 1.0 - worth_frac:
        return False
    return -math.log(ratio.value) > t_quantile(1.0 - MAX_LEAD_CHANCE, ratio.n - 1) * sd / math.sqrt(ratio.n)


def power_text(ratio: Estimate, tail: float, what: str) -> str:
    """Say which gain ``ratio.n`` observations (``what`` in the plural) could show, and how many this one would take."""
    sd = spread_of(ratio, tail)
    if sd is None or ratio.n is None:
        return f"too few {what} to say what they could show"
    smallest = -math.expm1(-smallest_detectable_drop(num_pairs=ratio.n, sd=sd))
    text = (
        f"{ratio.n} {what} show a gain of {smallest:.1%} in {POWER:.0%} of cases (one-sided {ONE_SIDED_CONFIDENCE:.0%})"
    )
    gain = -math.log(ratio.value)
    if gain <= 0 or sd == 0:
        return text
    return f"{text}; one as measured would take about {required_pairs(drop=gain, sd=sd)}"
