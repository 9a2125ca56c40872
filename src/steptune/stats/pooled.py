"""The ratio of few pairs whose scatter is known from elsewhere, such as from a repeat of one configuration.

Three pairs have two degrees of freedom, and their own interval is then 2.5 times as wide as it would be if their
scatter were known. Where an A/A repeat has shown it, both sources are pooled (Snedecor & Cochran, section 6.8). The
surprise: if the repeat was calmer than the pairs are, the interval is too narrow; their own scatter widens it in part.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.profile import PairSpread
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import Interval
from steptune.stats.ratio import paired_ratios, ratio_interval
from steptune.stats.student_t import t_quantile

MIN_SPREAD_PAIRS = 3
"""Pairs below which a scatter is not worth pooling."""


def pair_spread(a_s: Sequence[float], b_s: Sequence[float]) -> PairSpread | None:
    """Return how far pairs of two arms of one configuration scatter about their mean; times in one unit, in run order.

    None where there are few pairs, or a time is no time (what was not booked is 0), or all ratios are the same.
    """
    times = [*a_s, *b_s]
    if len(a_s) != len(b_s) or len(a_s) < MIN_SPREAD_PAIRS or finite_or_none(times) is None or min(times) <= 0:
        return None
    sd = statistics.stdev(math.log(ratio) for ratio in paired_ratios(a_s, b_s))
    return PairSpread(sd=sd, num_degrees=len(a_s) - 1) if sd > 0 else None


def pooled_ratio_interval(
    candidate: Sequence[float], incumbent: Sequence[float], confidence: float, known: PairSpread | None
) -> Interval:
    """Return the geometric mean of candidate / incumbent with the t interval of the pooled scatter.

    Example: three pairs of sd 0.04 and a known sd of 0.04 with 11 degrees: t of 13 degrees instead of 2.

    Raises:
        ValueError: as `stats.ratio.ratio_interval`.
    """
    alone = ratio_interval(candidate, incumbent, confidence)
    if known is None:
        return alone
    logs = [math.log(ratio) for ratio in paired_ratios(candidate, incumbent)]
    num_degrees = known.num_degrees + alone.n - 1
    variance = (known.num_degrees * known.sd**2 + (alone.n - 1) * statistics.variance(logs)) / num_degrees
    half = t_quantile(0.5 + confidence / 2, num_degrees) * math.sqrt(variance / alone.n)
    return Interval(
        value=alone.value,
        low=alone.value * math.exp(-half),
        high=alone.value * math.exp(half),
        n=alone.n,
        confidence=confidence,
    )
