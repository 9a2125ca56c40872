"""What the journal knows of one side of the incumbent's step: its part, its scatter, and the steps themselves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from steptune.core.phase import Role, is_child
from steptune.core.profile import PairSpread
from steptune.core.trial import Observation
from steptune.stats.pooled import pair_spread
from steptune.store.replay import SessionState


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Incumbent:
    """What a side's part is taken of: ``Incumbent(step_s=1.02, booked_s=0.41)``."""

    step_s: float
    booked_s: float
    """Of it, the side by its own spans."""


def incumbent_of(state: SessionState, signature: str, side: Role) -> Incumbent:
    """Return the incumbent's step and the side's booked part of it, as the journal has them."""
    steps = steps_of(state, signature)
    return Incumbent(step_s=fmean(step.step_time_s for step in steps), booked_s=fmean(_booked(s, side) for s in steps))


def steps_of(state: SessionState, signature: str) -> Sequence[Observation]:
    """Return an adopted candidate's own steps of its trial, else those of the A/A repeat."""
    for event in reversed(state.ended):
        if event.trial.change.signature == signature and event.trial.arms:
            return next(arm.observations for arm in event.trial.arms if arm.label == "candidate")
    return [step for arm in state.baseline_arms for step in arm.observations]


def side_spread(state: SessionState, side: Role) -> PairSpread | None:
    """Return how far pairs of this side scatter in the A/A repeat; None where it does not tell."""
    if len(state.baseline_arms) != 2:
        return None
    first, second = ([_booked(step, side) for step in arm.observations] for arm in state.baseline_arms)
    return pair_spread(first, second)


def _booked(step: Observation, side: Role) -> float:
    return math.fsum(
        span.seconds for span in step.spans if span.role == side and span.kind == "busy" and not is_child(span.phase)
    )
