"""The 80 % interval of a forecast ratio, from everything that is known to be uncertain.

On the log scale, variances add::

    noise of the measurement it will be scored by
  + ( posterior variance of the moves' residuals x size   grows with the moves, shrinks with trials
    + (EXTRAPOLATION_SD x part priced beyond the curves)²
    + (CONTENTION_SD x change of the overlapped part)²  ) x part that trials have not yet settled

*size*: part of the step that changes (`UNMOVED_FRAC` of the variance is there whatever it is), over the square root of
the number of moves, for most of a long list come along and change nothing (a correction, a lag, threads under a quota).
What baseline and candidate share (the same extrapolation, the same overlap) cancels in a ratio and is left out.
"""

import math
from dataclasses import dataclass

from steptune.core.change import Change
from steptune.forecast.model import ModelStep
from steptune.forecast.residual import Residuals
from steptune.forecast.sides import Sides
from steptune.forecast.step import CONTENTION_SD

Z_80 = 1.2815515655446004
"""Standard normal quantile that leaves 10 % on each side."""

EXTRAPOLATION_SD = 0.2
"""Log error of a step priced wholly at twice the largest measured size. Prior, to be replaced by bench."""


UNMOVED_FRAC = 0.25
"""Part of a move's variance that stays when the model sees hardly any second move. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioInterval:
    """``RatioInterval(low=0.66, mid=0.70, high=0.74)``: candidate / baseline step time, 80 %."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """How a predicted step differs from the baseline's: ``Apart(extrapolated_frac=0.0, contended_frac=0.4, ...)``."""

    extrapolated_frac: float
    """How much more (or less) of it is priced beyond the curves."""
    contended_frac: float
    """How much more (or less) of it overlaps."""
    moved_frac: float
    """Part of the longer one whose seconds differ."""


def apart(step: ModelStep, baseline: ModelStep) -> Apart:
    """Return what of ``step`` is not shared with the baseline's."""
    ours, theirs = step.time.seconds, baseline.time.seconds
    moved_s = math.fsum(abs(ours.get(key, 0.0) - theirs.get(key, 0.0)) for key in {*ours, *theirs})
    return Apart(
        extrapolated_frac=abs(step.stretched_frac - baseline.stretched_frac),
        contended_frac=abs(step.overlapped_frac - baseline.overlapped_frac),
        moved_frac=min(1.0, moved_s / max(step.time.step_s, baseline.time.step_s)),
    )


def ratio_interval(
    *, raw_ratio: float, change: Change, from_baseline: Apart, sides: Sides, residuals: Residuals, noise: float
) -> RatioInterval:
    """Correct a raw ratio by the residuals and put the interval around it.

    ``sides`` is how the candidate's own step divides, ``noise`` a log standard deviation.
    """
    mid = raw_ratio * math.exp(residuals.log_correction(change, sides))
    prior_var = residuals.prior_var * len(change.moves)
    known_var = residuals.variance(change)
    unsettled = known_var / prior_var if prior_var > 0 else 1.0
    moves_var = known_var * _size(change, from_baseline)
    extrapolated = EXTRAPOLATION_SD * from_baseline.extrapolated_frac
    contended = CONTENTION_SD * from_baseline.contended_frac
    variance = noise**2 + moves_var + unsettled * (extrapolated**2 + contended**2)
    spread = math.exp(Z_80 * math.sqrt(variance))
    return RatioInterval(low=mid / spread, mid=mid, high=mid * spread)


def _size(change: Change, from_baseline: Apart) -> float:
    """Return what a move's variance is multiplied with: 1 for a single move that changes every second of the step."""
    return (UNMOVED_FRAC + (1 - UNMOVED_FRAC) * from_baseline.moved_frac) / math.sqrt(max(1, len(change.moves)))
