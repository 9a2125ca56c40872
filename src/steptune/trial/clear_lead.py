"""When a running trial has won so clearly that more of it would only be paid for.

Two pairs have no interval of their own worth the name (one degree of freedom), but the A/A repeat has shown how far
step times spread in and between launches of this job. With that spread known, a large gain is clear after two pairs.
What it decides is little: from where the search goes on. What leaves the tool is confirmed on other launches.

The spread of steps is mostly work where steps differ, and both arms meet the same steps, so it is taken too large here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.profile import NoiseFloor
from steptune.trial.blocks import Pair

MIN_PAIRS = 2
"""Pairs before a trial may be won: with one, a single disturbance could have made it."""

Z = 3.0
"""Standard errors that the gain must exceed the noise by at each look: 0.13 % one-sided, 0.3 % over two looks."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ClearLead:
    """Says whether a candidate's gain is beyond doubt: ``ClearLead(noise=..., band_frac=0.05)(pairs)``."""

    noise: NoiseFloor
    band_frac: float
    """Gain, as a part of the step, that would not count."""
    devices_ratio: float = 1.0
    """See `core.trial.Trial`."""

    def __call__(self, pairs: Sequence[Pair]) -> bool:
        """Return whether more pairs could not change the answer. NaN is never clear."""
        if len(pairs) < MIN_PAIRS:
            return False
        num_steps = sum(len(pair.candidate) for pair in pairs)
        gain = -sum(math.log(pair.ratio * self.devices_ratio) for pair in pairs) / len(pairs)
        within = self.noise.within_launch_cv * math.sqrt(2 / num_steps)
        spread = math.hypot(within, self.noise.between_launch_frac)
        return gain - Z * spread > -math.log1p(-self.band_frac)
