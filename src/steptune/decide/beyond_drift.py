"""Whether few steps of a candidate beat recorded ones of its incumbent, whatever the machine did since. Pure.

Arms that take turns share the machine's drift, so a gain of 2 % can be told from it; a gain of half the step needs no
second arm. The surprise: this says what is *followed*, not what is claimed. The confirmation launches both afresh.
"""

import math

from steptune.core.profile import NoiseFloor
from steptune.stats.noise import step_pair_sd

BLOCK_Z = 3.0
"""Standard errors of a block, launches included, that count as its worst case: 0.13 % one-sided."""

MAX_DRIFT_FRAC = 0.2
"""Part of its step that a machine may have got faster by since the incumbent's steps were recorded: twice what
`bench/verdicts.py` lets a whole session drift."""


def worst_case(num_steps: int, noise: NoiseFloor) -> float:
    """Return what the ratio of two blocks of ``num_steps``, of two launches, is multiplied with to be its slow end.

    Example: pairs of steps spread 4 %, launches 1 %, four steps: exp(3 x hypot(0.02, 0.01)) = 1.07.
    """
    scatter = (step_pair_sd(noise) or noise.within_launch_cv) / math.sqrt(max(1, num_steps))
    return math.exp(BLOCK_Z * math.hypot(scatter, noise.between_launch_frac))


def is_beyond_drift(slow_end: float, worth: float) -> bool:
    """Return whether a ratio to recorded steps is a gain worth having whatever the machine did since. NaN is not.

    Example: a least gain of 1 %: 0.7 is (0.7 < 0.99 x 0.8), 0.85 may be a machine that is faster now.
    """
    return slow_end < (1.0 - worth) * (1.0 - MAX_DRIFT_FRAC)
