"""When a running trial is won or lost so clearly that more of it would only be paid for.

Two pairs have no interval of their own worth the name (one degree of freedom), but the A/A repeat has shown how far
step times spread in and between launches of this job. With that spread known, a large gain is clear after two pairs,
and so is that there is none. What it decides is little: from where the search goes on. What leaves the tool is
confirmed on other launches.

The spread of steps is mostly work where steps differ, and both arms meet the same steps, so it is taken too large here.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.profile import NoiseFloor
from steptune.stats.finite import finite_or_none
from steptune.trial.blocks import Pair

MIN_PAIRS = 2
"""Pairs before a trial may be won or lost: with one, a single disturbance could have made it."""

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
        gains = _log_gains(pairs, self.devices_ratio)
        return statistics.fmean(gains) - Z * _spread(self.noise, pairs) > -math.log1p(-self.band_frac)


def clear_gain_frac(noise: NoiseFloor, band_frac: float, kept_steps: int) -> float:
    """Return the gain (1 - ratio) from which on `MIN_PAIRS` pairs of blocks of ``kept_steps`` are a clear lead.

    Example: 3 % in and 1 % between launches, a band of 1 %: 0.01 + 3 x 0.02 of the log, a gain of 6.8 %.
    """
    return -math.expm1(math.log1p(-band_frac) - Z * _standard_error(noise, MIN_PAIRS * kept_steps))


def is_clear_loss(pairs: Sequence[Pair], noise: NoiseFloor, worth_frac: float, devices_ratio: float = 1.0) -> bool:
    """Return whether more pairs could not make a gain of ``worth_frac`` any more. NaN is never clear.

    Pairs that lie further apart than the A/A repeat's say that it was lucky, or that the candidate is uneven: then
    their own spread counts.
    """
    gains = finite_or_none(_log_gains(pairs, devices_ratio))
    if gains is None or len(gains) < MIN_PAIRS:
        return False
    spread = max(_spread(noise, pairs), statistics.stdev(gains) / math.sqrt(len(gains)))
    return statistics.fmean(gains) + Z * spread < -math.log1p(-worth_frac)


def _log_gains(pairs: Sequence[Pair], devices_ratio: float) -> list[float]:
    return [-math.log(pair.ratio * devices_ratio) for pair in pairs]


def _spread(noise: NoiseFloor, pairs: Sequence[Pair]) -> float:
    return _standard_error(noise, sum(len(pair.candidate) for pair in pairs))


def _standard_error(noise: NoiseFloor, num_steps: int) -> float:
    """Return that of the mean log gain of ``num_steps`` steps of each arm, two launches' difference included."""
    return math.hypot(noise.within_launch_cv * math.sqrt(2 / num_steps), noise.between_launch_frac)
