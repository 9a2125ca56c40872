"""The 80 % interval of a forecast ratio, from everything that is known to be uncertain.

On the log scale, variances add::

    noise of the measurement it will be scored by
  + sum over touched parts (what the step does when the part takes one standard deviation longer)²
  + posterior variance of the layout for the moves / root of their number
  + ( (EXTRAPOLATION_SD x part priced beyond the curves)²
    + (CONTENTION_SD x change of the overlapped part)² ) x part that trials have not yet settled

A part's deviation is its moves' posterior one (`taught`) over the fourth root of their number, for most of a long list
come along and change nothing (a correction, a lag, threads under a quota); it is smaller where the part hardly changes,
and larger where the probe that priced it was noisy (`pool`). Surprise: an overlapped side that is not the longer one
adds next to nothing, however little is known of it.
What baseline and candidate share (the same extrapolation, the same overlap) cancels in a ratio and is left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from steptune.core.change import Change
from steptune.core.event import Part
from steptune.core.work import PlannedWork
from steptune.forecast.model import ModelStep, StepModel
from steptune.forecast.parts import PartSeconds, priced_by
from steptune.forecast.step import CONTENTION_SD
from steptune.forecast.taught import Taught, Touched, touched

Z_80 = 1.2815515655446004
"""Standard normal quantile that leaves 10 % on each side."""

EXTRAPOLATION_SD = 0.2
"""Log error of a step priced wholly at twice the largest measured size. Prior, to be replaced by bench."""

UNMOVED_FRAC = 0.25
"""Part of a part's variance that stays when its seconds hardly change. Prior."""

MOVED_LOG = math.log(1.5)
"""|ln| of a part's forecast ratio from which its whole variance counts. Prior."""

PROBE_SHARE = 0.25
"""Part of the probe's left-over spread that pooling leaves in a price. Prior: a curve has three to five points."""

PROBED_BY: Mapping[Part, str] = {"rollout": "decode", "train": "train"}
"""Primitive whose probe makes most of a part's price."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioInterval:
    """``RatioInterval(low=0.66, mid=0.70, high=0.74)``: candidate / baseline step time, 80 %."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """How a predicted step differs from the baseline's; small, for a large space keeps one per candidate."""

    parts: PartSeconds
    """Of the predicted step, before any trial."""
    baseline: PartSeconds
    touched: Touched
    price_sd: Mapping[Part, float]
    """Standard deviation (log) that noisy probes leave in a part's price."""
    extrapolated_frac: float
    """How much more (or less) of it is priced beyond the curves."""
    contended_frac: float
    """How much more (or less) of it overlaps."""


def apart(
    model: StepModel, step: ModelStep, change: Change, planned: PlannedWork, planned_baseline: PlannedWork
) -> Apart:
    """Return what of ``step`` is not shared with the baseline's."""
    base = model.baseline
    return Apart(
        parts=step.parts,
        baseline=base.parts,
        touched=touched(change, (priced_by(planned_baseline), priced_by(planned)), step.parts, base.parts),
        price_sd={part: PROBE_SHARE * model.probe_noise_sd.get(name, 0.0) for part, name in PROBED_BY.items()},
        extrapolated_frac=abs(step.stretched_frac - base.stretched_frac),
        contended_frac=abs(step.overlapped_frac - base.overlapped_frac),
    )


def ratio_interval(from_baseline: Apart, taught: Taught, noise: float) -> RatioInterval:
    """Correct a ratio by what trials taught and put the interval around it. ``noise`` is a log standard deviation."""
    moved = from_baseline.touched
    parts = from_baseline.parts.times(taught.factors(moved))
    mid = parts.step_s / from_baseline.baseline.step_s * taught.step_factor(moved)
    unsettled = taught.unsettled(moved)
    variance = noise**2 + taught.layout.variance_of(moved.every) / math.sqrt(max(1, len(moved.every)))
    for part in moved.by_part:
        sd = math.sqrt(_part_variance(part, from_baseline, taught, unsettled))
        variance += math.log(parts.times({part: math.exp(sd)}).step_s / parts.step_s) ** 2
    extrapolated = EXTRAPOLATION_SD * from_baseline.extrapolated_frac
    contended = CONTENTION_SD * from_baseline.contended_frac
    variance += unsettled * (extrapolated**2 + contended**2)
    spread = math.exp(Z_80 * math.sqrt(variance))
    return RatioInterval(low=mid / spread, mid=mid, high=mid * spread)


def part_sd(part: Part, from_baseline: Apart, taught: Taught) -> float:
    """Return the standard deviation (log) of a part's seconds; 0 where they are the baseline's own."""
    moved = from_baseline.touched
    if part not in moved.by_part:
        return 0.0
    return math.sqrt(_part_variance(part, from_baseline, taught, taught.unsettled(moved)))


def _part_variance(part: Part, from_baseline: Apart, taught: Taught, unsettled: float) -> float:
    """Return the variance of the log of a touched part's seconds."""
    keys = from_baseline.touched.by_part[part]
    prior = taught.parts[part].prior_var * len(keys)
    known = taught.part_variance(part, keys)
    probe = from_baseline.price_sd.get(part, 0.0) ** 2 * (known / prior if prior > 0 else 1.0)
    return (known / math.sqrt(max(1, len(keys))) * _size(part, from_baseline) + probe) * unsettled


def _size(part: Part, from_baseline: Apart) -> float:
    """Return what a part's variance is multiplied with: 1 where its seconds change by half or more."""
    ours, theirs = getattr(from_baseline.parts, part), getattr(from_baseline.baseline, part)
    if not (ours > 0 and theirs > 0):
        return 1.0
    return UNMOVED_FRAC + (1 - UNMOVED_FRAC) * min(1.0, abs(math.log(ours / theirs)) / MOVED_LOG)
