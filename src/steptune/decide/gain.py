"""Whether a measured ratio is a win, a loss or not settled, against the noise band.

::

    ratio      0 ......... 1 - band ......... 1 ......... >
    WINS       high < 1 and value < 1 - band
    LOSES      low >= 1 - band          (even its best case is no gain above the noise)
    UNSETTLED  anything else: more blocks could decide
"""

from enum import StrEnum

from steptune.core.estimate import Estimate
from steptune.stats.finite import finite_or_none


class Gain(StrEnum):
    """What the ratio says about speed."""

    WINS = "wins"
    LOSES = "loses"
    UNSETTLED = "unsettled"


def interval_of(ratio: Estimate) -> tuple[float, float, float] | None:
    """Return value, low and high of a ratio; None if one is missing, not finite, out of order or not above zero."""
    kept = finite_or_none((ratio.value, ratio.low, ratio.high))
    if kept is None:
        return None
    value, low, high = kept
    return (value, low, high) if value > 0 and low <= value <= high else None


def cannot_beat(low: float, band_frac: float) -> bool:
    """Return whether a ratio whose optimistic end is ``low`` has no gain above the noise band to hope for."""
    return low >= 1.0 - band_frac


def judge_gain(*, value: float, low: float, high: float, band_frac: float) -> Gain:
    """Judge a ratio (new / old time, below 1 is faster) and its interval against the band, a fraction."""
    if cannot_beat(low, band_frac):
        return Gain.LOSES
    return Gain.WINS if high < 1.0 and value < 1.0 - band_frac else Gain.UNSETTLED
