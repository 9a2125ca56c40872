"""A step as three totals: the rollout's side, the trainer's and what stops both. What residuals correct side by side.

One trial gives one ratio, but its spans give two: how far the forecast missed the rollout, and how far the trainer.
The surprise: two misses may cancel in the step and still mislead everything that moves work or devices between sides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, final

from steptune.core.phase import Role, SpanKind, is_child, parent_phase
from steptune.core.trial import Observation
from steptune.forecast.model import ModelStep
from steptune.forecast.side import Key
from steptune.forecast.step import CONTENTION, Side, side_totals, undisturbed


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """Undisturbed seconds: ``Sides(schedule="sync", rollout_s=0.6, trainer_s=0.4, serial_s=0.0)``."""

    schedule: Literal["sync", "one_step_off"]
    rollout_s: float
    trainer_s: float
    serial_s: float

    def step_s(self, rollout_log: float = 0.0, trainer_log: float = 0.0) -> float:
        """Return the step, each side longer by its log error; see `step.lay_out`."""
        rollout_s, trainer_s = self.rollout_s * math.exp(rollout_log), self.trainer_s * math.exp(trainer_log)
        if self.schedule == "sync":
            return rollout_s + trainer_s + self.serial_s
        return max(rollout_s, trainer_s) + (CONTENTION - 1) * min(rollout_s, trainer_s) + self.serial_s


def sides_of(step: ModelStep) -> Sides:
    """Return the totals of a predicted step."""
    total = side_totals(undisturbed(step.schedule, step.time.seconds))
    return Sides(
        schedule=step.schedule,
        rollout_s=total[Side.ROLLOUT],
        trainer_s=total[Side.TRAINER],
        serial_s=total[Side.SERIAL],
    )


def side_errors(step: ModelStep, steps: Sequence[Observation], measured_step_s: float) -> tuple[float, float] | None:
    """Return ln(measured / forecast) of the busy seconds of the rollout's side and of the trainer's.

    Args:
        step: as forecast from the profile alone.
        steps: the trial's own; their spans say how a step divides.
        measured_step_s: what the trial's ratio makes of the profile's step; the steps' own mean may have drifted.

    None where a side was not measured, or has no forecast.
    """
    if not steps:
        return None
    scale = measured_step_s / fmean(each.step_time_s for each in steps)
    forecast, measured = side_totals(step.time.seconds), side_totals(_busy_s(steps))
    ratios = [
        measured[side] * scale / forecast[side] if forecast[side] > 0 else 0.0 for side in (Side.ROLLOUT, Side.TRAINER)
    ]
    if not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
        return None
    return math.log(ratios[0]), math.log(ratios[1])


def _busy_s(steps: Sequence[Observation]) -> dict[Key, float]:
    """Return mean busy seconds by role and phase: parents, and children whose parent has no span of its own."""
    total: dict[Key, float] = {}
    for step in steps:
        busy = [span for span in step.spans if span.kind == SpanKind.BUSY]
        named = {(span.role, span.phase) for span in busy}
        for span in busy:
            if is_child(span.phase) and (span.role, parent_phase(span.phase).value) in named:
                continue
            key = Role(span.role), span.phase
            total[key] = total.get(key, 0.0) + span.seconds / len(steps)
    return total
