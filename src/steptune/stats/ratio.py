"""How many times as long: the ratio of paired times, with an interval on the log ratios.

Times multiply (a slow spell makes both arms 5 % slower, not 50 ms slower), so pairs are compared as
ln(candidate / incumbent) and the interval is carried back by exp. Swapping the arms gives exactly 1 / ratio.
Blocks are averaged by their mean, not their median: the user pays for every second of a block.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.stats.finite import require_finite
from steptune.stats.intervals import DEFAULT_CONFIDENCE, Interval, mean_interval


def paired_ratios(candidate: Sequence[float], incumbent: Sequence[float]) -> list[float]:
    """Return candidate / incumbent pair by pair; both are positive times in the same unit.

    Raises:
        ValueError: lengths differ, or a value is missing, not finite or not above zero.
    """
    ours, theirs = (_positive(times) for times in (candidate, incumbent))
    return [c / i for c, i in zip(ours, theirs, strict=True)]


def ratio_interval(
    candidate: Sequence[float], incumbent: Sequence[float], confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Return the geometric mean of paired ratios (one pair a block) with its t interval; below 1 is faster.

    Raises:
        ValueError: lengths differ, fewer than two pairs, or a time that is not finite and above zero.
    """
    logs = mean_interval([math.log(ratio) for ratio in paired_ratios(candidate, incumbent)], confidence)
    return Interval(
        value=math.exp(logs.value),
        low=math.exp(logs.low),
        high=math.exp(logs.high),
        n=logs.n,
        confidence=confidence,
    )


def block_means(times_BT: Sequence[Sequence[float]]) -> list[float]:
    """Return one mean time per block (B block, T step of the block); steps of a block share their slow spell.

    Raises:
        ValueError: a block is empty or holds a value that is not finite.
    """
    return [statistics.fmean(require_finite(block, at_least=1)) for block in times_BT]


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values.

    Raises:
        ValueError: no values, or one that is not finite and above zero.
    """
    return math.exp(statistics.fmean(math.log(value) for value in _positive(values)))


def _positive(values: Sequence[float]) -> tuple[float, ...]:
    kept = require_finite(values, at_least=1)
    if min(kept) <= 0:
        raise ValueError(f"times must be above zero, got {kept}")
    return kept
