"""Turns a finished trial into what the residuals learn from: its step, and the seconds of every part it touched.

Busy seconds are compared as parts of the baseline's step. Where the trial's incumbent was the baseline itself, each
part is measured against the incumbent's own in the same trial, so that a slow hour is no error of the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from steptune.core.change import Change
from steptune.core.event import LearntFrom, LearntPart, Part
from steptune.core.job import Objective
from steptune.core.phase import Role, SpanKind, is_child
from steptune.core.profile import Profile
from steptune.core.trial import Observation
from steptune.core.work import PlannedWork, objective_weight
from steptune.forecast.model import ModelStep, fit
from steptune.forecast.parts import PARTS, part_of, priced_by
from steptune.forecast.side import Key
from steptune.forecast.taught import touched

REPLAYED_PART: Mapping[Role, Part] = {Role.ROLLOUT: "rollout", Role.TRAINER: "train"}
"""What a replay of a side runs of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmPhases:
    """An arm's mean step: ``ArmPhases(step_s=0.33, busy_s={(Role.ROLLOUT, "rollout"): 0.21, ...})``."""

    step_s: float
    busy_s: Mapping[Key, float]
    """Top-level busy seconds per step."""


def arm_phases(observations: Sequence[Observation]) -> ArmPhases | None:
    """Return an arm's mean step; None where it has no steps or no spans."""
    spans = [
        span for seen in observations for span in seen.spans if span.kind == SpanKind.BUSY and not is_child(span.phase)
    ]
    if not spans:
        return None
    busy_s: dict[Key, float] = {}
    for span in spans:
        key = (Role(span.role), span.phase)
        busy_s[key] = busy_s.get(key, 0.0) + span.seconds / len(observations)
    return ArmPhases(step_s=fmean(seen.step_time_s for seen in observations), busy_s=busy_s)


def learnt_from(
    *,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: PlannedWork,
    change: Change,
    objective: Objective,
    measured_ratio: float,
    candidate: ArmPhases | None,
    baseline: ArmPhases | None,
) -> LearntFrom:
    """Return what a trial teaches.

    ``measured_ratio`` is candidate over baseline, of the objective. ``candidate`` is None where its phases were not
    measured; ``baseline`` is the incumbent of the same trial where that was the baseline, else None.

    Raises:
        ForecastError: the profile does not support a number.
    """
    model = fit(profile, planned_baseline)
    step, weight = model.predict(planned), objective_weight(objective, planned, planned_baseline)
    raw = model.ratio(step) * weight
    if candidate is None or not candidate.step_s > 0:
        return LearntFrom(change=change, raw_forecast_ratio=raw, measured_ratio=measured_ratio)
    told = touched(change, (priced_by(planned_baseline), priced_by(planned)), step.parts, model.baseline.parts)
    forecast, base = (_fracs(s, model.baseline.time.step_s) for s in (step, model.baseline))
    ratio = measured_ratio / weight
    parts = tuple(
        LearntPart(
            part=part,
            knobs=tuple(knob for knob, _ in keys),
            raw_frac=forecast[part],
            measured_frac=_measured_frac(part, candidate, baseline, ratio, base[part]),
        )
        for part, keys in told.by_part.items()
    )
    factors: dict[Part, float] = {p.part: p.measured_frac / p.raw_frac for p in parts if p.raw_frac > 0}
    laid_out = step.parts.times(factors).step_s / model.baseline.parts.step_s * weight
    return LearntFrom(
        change=change, raw_forecast_ratio=raw, measured_ratio=measured_ratio, parts=parts, laid_out_ratio=laid_out
    )


def learnt_from_half(
    *,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: PlannedWork,
    change: Change,
    objective: Objective,
    side: Role,
    knobs: tuple[str, ...],
    side_ratio: float,
) -> LearntFrom:
    """Return what the replay of one side alone teaches: the seconds of its part, undisturbed by the other side.

    ``side_ratio`` is the side under ``change`` over the baseline's, ``knobs`` those of the change that did it.

    Raises:
        ForecastError: the profile does not support a number.
    """
    model, part = fit(profile, planned_baseline), REPLAYED_PART[side]
    step, weight = model.predict(planned), objective_weight(objective, planned, planned_baseline)
    raw, base = (getattr(parts, part) / model.baseline.parts.step_s for parts in (step.parts, model.baseline.parts))
    seen = LearntPart(part=part, knobs=knobs, raw_frac=raw, measured_frac=base * side_ratio)
    factors: dict[Part, float] = {part: seen.measured_frac / raw} if raw > 0 else {}
    return LearntFrom(
        change=change,
        raw_forecast_ratio=model.ratio(step) * weight,
        measured_ratio=None,
        parts=(seen,),
        laid_out_ratio=step.parts.times(factors).step_s / model.baseline.parts.step_s * weight,
    )


def _fracs(step: ModelStep, baseline_s: float) -> dict[Part, float]:
    return {
        part: math.fsum(s for key, s in step.time.seconds.items() if part_of(key) == part) / baseline_s
        for part in PARTS
    }


def _measured_frac(
    part: Part, candidate: ArmPhases, baseline: ArmPhases | None, ratio: float, base_frac: float
) -> float:
    """Return a part's seconds over the baseline's step, by the baseline's own in the same trial where it has one."""
    ours = _part_s(candidate, part)
    theirs = _part_s(baseline, part) if baseline is not None else 0.0
    if theirs > 0 and base_frac > 0:
        return base_frac * ours / theirs
    return ours / candidate.step_s * ratio


def _part_s(arm: ArmPhases, part: Part) -> float:
    return math.fsum(s for key, s in arm.busy_s.items() if part_of(key) == part)
