"""From seconds per phase to seconds per step, by schedule.

``sync``: one role works at a time, so phases add::

    rollout   [ generate k ]............[ generate k+1 ]      . waits
    trainer   ..............[ train k ].................
              |<--------- step -------->|

``one_step_off``: the rollout produces batch k+1 while the trainer consumes batch k; both stop for the
hand-over of weights, which unblocks the rollout with version k::

    rollout   [ generate k+1       ]|H|[ generate k+2       ]
    trainer   [ train k ]...........|H|[ train k+1 ].........
              |<------- step ------->|

The surprise: two sides that compute at once slow each other down (memory bandwidth, shared cache, clock).
While both work, each needs CONTENTION times as long, so the shorter side S and the longer side L give

    step = L + (CONTENTION - 1) x S + serial time

and more speed on the shorter side is worth almost nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Literal

from steptune.core.phase import Phase, Role, parent_phase
from steptune.forecast.side import Key

CONTENTION = 1.08
"""Slow-down (ratio) of a side while the other one computes too. Prior, to be replaced by bench."""

CONTENTION_SD = 0.1
"""Standard deviation of CONTENTION. Prior: the layout of steps whose schedule changed was off by 0.09 to 0.13 (robust
deviation, 12 trials of the first prospective campaign), with a third to half of the step overlapped."""

SERIAL_PHASES = frozenset({Phase.WEIGHT_SYNC, Phase.MODE_SWITCH, Phase.VALIDATE, Phase.CHECKPOINT, Phase.UNATTRIBUTED})
"""Phases during which the other side stands still, whichever role they are booked on."""


class Side(Enum):
    """Which line of the drawing a phase lies on. SERIAL stops both."""

    ROLLOUT = auto()
    TRAINER = auto()
    SERIAL = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """One step laid out in time: ``StepTime(step_s=1.02, seconds={(Role.TRAINER, "train"): 0.47, ...})``."""

    step_s: float
    seconds: dict[Key, float]
    """Busy seconds per phase, contention included."""
    overlapped_s: float
    """Seconds of work that both sides do at once, contention excluded; 0 when synchronous."""


@cache
def side_of(key: Key) -> Side:
    """Return the side that waits for nobody but itself during this phase. Environments belong to the rollout."""
    role, phase = key
    if role is Role.ROLLOUT and parent_phase(phase) is Phase.WEIGHT_SYNC:
        return Side.ROLLOUT  # it reads and checks new weights while the trainer already trains
    if role is Role.CONTROLLER or parent_phase(phase) in SERIAL_PHASES:
        return Side.SERIAL
    return Side.TRAINER if role is Role.TRAINER else Side.ROLLOUT


def lay_out(schedule: Literal["sync", "one_step_off"], alone_s: Mapping[Key, float]) -> StepTime:
    """Return the step made of phases that would take ``alone_s`` seconds undisturbed."""
    if schedule == "sync":
        return StepTime(step_s=math.fsum(alone_s.values()), seconds=dict(alone_s), overlapped_s=0.0)
    total = side_totals(alone_s)
    shorter = min(total[Side.ROLLOUT], total[Side.TRAINER])
    extra = (CONTENTION - 1) * shorter
    stretch = {side: 1.0 + extra / seconds if seconds > 0 else 1.0 for side, seconds in total.items()}
    stretch[Side.SERIAL] = 1.0
    return StepTime(
        step_s=joined_s(
            schedule, rollout_s=total[Side.ROLLOUT], trainer_s=total[Side.TRAINER], serial_s=total[Side.SERIAL]
        ),
        seconds={key: s * stretch[side_of(key)] for key, s in alone_s.items()},
        overlapped_s=shorter,
    )


def joined_s(
    schedule: Literal["sync", "one_step_off"], *, rollout_s: float, trainer_s: float, serial_s: float
) -> float:
    """Return the step that the seconds of both sides and of what stops both make."""
    if schedule == "sync":
        return math.fsum((rollout_s, trainer_s, serial_s))
    shorter, longer = sorted((rollout_s, trainer_s))
    return longer + (CONTENTION - 1) * shorter + serial_s


def undisturbed(schedule: Literal["sync", "one_step_off"], busy_s: Mapping[Key, float]) -> dict[Key, float]:
    """Take the contention out of measured busy seconds: the inverse of `lay_out`."""
    if schedule == "sync":
        return dict(busy_s)
    total = side_totals(busy_s)
    extra = (CONTENTION - 1) * min(total[Side.ROLLOUT], total[Side.TRAINER]) / CONTENTION
    shrink = {side: 1.0 - extra / seconds if seconds > 0 else 1.0 for side, seconds in total.items()}
    shrink[Side.SERIAL] = 1.0
    return {key: s * shrink[side_of(key)] for key, s in busy_s.items()}


def side_totals(seconds: Mapping[Key, float]) -> dict[Side, float]:
    """Return the seconds of each side. Children must not be given together with their parent's total."""
    total = dict.fromkeys(Side, 0.0)
    for key, s in seconds.items():
        total[side_of(key)] += s
    return total


def idle_by_role(step: StepTime) -> dict[Role, float]:
    """Return each role's waiting: its busy seconds plus this are the step."""
    roles = sorted({role for role, _ in step.seconds})
    return {
        role: step.step_s - math.fsum(s for (other, _), s in step.seconds.items() if other is role) for role in roles
    }
