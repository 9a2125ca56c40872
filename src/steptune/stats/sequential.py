"""Intervals that may be looked at again and again: for stopping a running trial early.

Looking at a plain 95 % interval after every block and stopping at the first that excludes 1 is wrong far more
often than 5 % (14 % at five looks). Here the error of 5 % is shared out equally over a number of looks fixed
*beforehand* (Bonferroni): each look gets a 1 - 0.05/looks interval, so the chance that *any* of them misses
the truth is at most 5 %. It is a little wider than Pocock's, and holds for t intervals of any block count.
"""

from collections.abc import Sequence
from dataclasses import replace

from steptune.core.profile import PairSpread
from steptune.stats.intervals import DEFAULT_CONFIDENCE, Interval
from steptune.stats.pooled import pooled_ratio_interval
from steptune.stats.ratio import ratio_interval

SETTLED_CONFIDENCE = 0.9
"""Two-sided coverage over all looks of `is_settled`: 5 % on the side that would end something good."""


def look_confidence(max_looks: int, confidence: float = DEFAULT_CONFIDENCE) -> float:
    """Return the coverage each single look needs so that all ``max_looks`` together cover ``confidence``.

    Raises:
        ValueError: ``max_looks`` is below one.
    """
    if max_looks < 1:
        raise ValueError(f"need at least one look, got {max_looks}")
    return 1.0 - (1.0 - confidence) / max_looks


def sequential_ratio_interval(
    candidate: Sequence[float],
    incumbent: Sequence[float],
    *,
    max_looks: int,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Interval:
    """Return candidate / incumbent over the paired blocks so far, valid at every one of ``max_looks`` looks.

    Raises:
        ValueError: as `ratio_interval`, or ``max_looks`` below one.
    """
    single_look = ratio_interval(candidate, incumbent, look_confidence(max_looks, confidence))
    return replace(single_look, confidence=confidence)


def is_settled(
    pairs: Sequence[tuple[float, float]], *, line: float, looks: Sequence[int], known: PairSpread | None
) -> bool:
    """Return whether candidate / incumbent is surely above or surely below ``line``, at one of the planned looks.

    Args:
        pairs: times so far, (incumbent, candidate), all above zero.
        line: ratio that matters.
        looks: numbers of pairs after which one looks, in rising order; two or more.
        known: scatter of such pairs, if it was seen elsewhere.

    Example: ratios of 1.20, 1.22 and 1.19 at the first of four looks, scatter 0.04 known, line 0.95: above, so it is.

    Raises:
        ValueError: a time is not finite and above zero, or there are more pairs than the last look has.
    """
    if len(pairs) > looks[-1]:
        raise ValueError(f"at most {looks[-1]} pairs were planned, got {len(pairs)}")
    if len(pairs) not in looks:
        return False
    so_far = pooled_ratio_interval(
        [candidate for _, candidate in pairs],
        [incumbent for incumbent, _ in pairs],
        look_confidence(len(looks), SETTLED_CONFIDENCE),
        known,
    )
    return so_far.low > line or so_far.high < line
