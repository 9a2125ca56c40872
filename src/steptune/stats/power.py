"""What a paired test could have seen: the smallest drop it finds with 80 % power, and the pairs that takes.

(t(1-α) + t(power)) · sd / √n, both quantiles at n-1 degrees of freedom. This is the usual approximation of
the non-central t (Julious 2004, https://doi.org/10.1002/sim.1783); `tests/stats` holds it against simulation.
"""

import math
from statistics import NormalDist

from steptune.stats.student_t import t_quantile

POWER = 0.8
"""Chance to find a drop of the stated size; the convention of clinical trials (ICH E9)."""

ONE_SIDED_CONFIDENCE = 0.95
"""Confidence of the one-sided test: only a fall of the reward matters."""


def smallest_detectable_drop(*, num_pairs: int, sd: float) -> float:
    """Return the smallest true drop that ``num_pairs`` pairs find with 80 % power at one-sided 95 %.

    ``sd`` is the standard deviation of the paired differences, in the unit of the answer.

    Raises:
        ValueError: fewer than two pairs, or an ``sd`` that is negative or not finite.
    """
    if num_pairs < 2 or not 0 <= sd < math.inf:
        raise ValueError(f"need two pairs and a finite sd, got {num_pairs} pairs and sd={sd}")
    df = num_pairs - 1
    return (t_quantile(ONE_SIDED_CONFIDENCE, df) + t_quantile(POWER, df)) * sd / math.sqrt(num_pairs)


def required_pairs(*, drop: float, sd: float) -> int:
    """Return the fewest pairs that find ``drop`` with 80 % power at one-sided 95 %; at least two.

    Raises:
        ValueError: ``drop`` is not above zero and finite, or ``sd`` is negative or not finite.
    """
    if not 0 < drop < math.inf or not 0 <= sd < math.inf:
        raise ValueError(f"need a drop above zero and a finite sd, got drop={drop}, sd={sd}")
    # Normal quantiles are below t quantiles, so this start is never too large.
    z = NormalDist().inv_cdf(ONE_SIDED_CONFIDENCE) + NormalDist().inv_cdf(POWER)
    num_pairs = max(2, math.floor((z * sd / drop) ** 2))
    while smallest_detectable_drop(num_pairs=num_pairs, sd=sd) > drop:
        num_pairs += 1
    return num_pairs
