"""What the replay of one side says of that side's seconds under a change that touches both. Pure.

Unlike a screening it decides nothing: the ratio is of the side alone, and goes to the forecast, which joins both sides.
"""

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import SideTimes
from steptune.core.profile import PairSpread
from steptune.stats.pooled import pooled_ratio_interval

HALF_LOOKS = (3,)
"""Pairs of a half. Three scatter by 2.4 % of the side at 3 % noise a step; what is to be told apart are forecasts of a
side that err by 6 to 12 % (`forecast.taught.PART_SD`)."""

HALF_CONFIDENCE = 0.9
"""Two-sided."""


def half_ratio(times: SideTimes | None, beside_ratio: float, spread: PairSpread | None) -> Estimate | None:
    """Return the side under the change over the baseline's; None where the replay failed or was too short.

    ``beside_ratio`` is the same of what ran in turn with it (1 for the baseline's own half), ``spread`` the side's
    scatter in the A/A repeat. Example: 0.9 of a half that takes 0.6 of the baseline's: 0.54.
    """
    if times is None or len(times.incumbent_s) < HALF_LOOKS[0]:
        return None
    try:
        pairs = pooled_ratio_interval(times.candidate_s, times.incumbent_s, HALF_CONFIDENCE, spread)
    except ValueError:  # an impossible time
        return None
    value, low, high = (ratio * beside_ratio for ratio in (pairs.value, pairs.low, pairs.high))
    note = f"one side over the baseline's; {HALF_CONFIDENCE:.4g} interval"
    return Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED, n=pairs.n, note=note)
