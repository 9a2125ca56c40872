"""The parts of a step that trials teach of one by one, and the step that they make.

::

    rollout    decoding and prefill          train      micro-batches, log-probs, optimizer
    load       the rollout takes weights     handover   the trainer gives them
    rests      everything else, by whom it stops: nobody learns about it, it is carried over

A trial that moved rollout knobs says nothing about training: so errors are kept by part, and a part is corrected only
where its own work changes. Surprise: a `PartSeconds` lays itself out as `step.lay_out` does, but is small enough to
be kept for every candidate of a large space.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, final

from steptune.core.event import Part
from steptune.core.phase import Phase, Role, parent_phase
from steptune.core.work import PlannedWork
from steptune.forecast.side import Key
from steptune.forecast.step import Side, joined_s, side_of

PARTS: tuple[Part, ...] = ("rollout", "train", "load", "handover")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PartSeconds:
    """Undisturbed seconds per step: ``PartSeconds(schedule="sync", rollout=0.31, train=0.47, handover=0.01)``."""

    schedule: Literal["sync", "one_step_off"]
    rollout: float = 0.0
    train: float = 0.0
    load: float = 0.0
    handover: float = 0.0
    rollout_rest: float = 0.0
    """Environments, and whatever else only the rollout's side waits for."""
    trainer_rest: float = 0.0
    serial_rest: float = 0.0
    """What stops both."""

    @property
    def step_s(self) -> float:
        """Seconds of the step."""
        return joined_s(
            self.schedule,
            rollout_s=math.fsum((self.rollout, self.load, self.rollout_rest)),
            trainer_s=math.fsum((self.train, self.trainer_rest)),
            serial_s=math.fsum((self.handover, self.serial_rest)),
        )

    def times(self, factors: Mapping[Part, float]) -> "PartSeconds":
        """Return the same with parts multiplied."""
        return replace(self, **{part: getattr(self, part) * factor for part, factor in factors.items()})


def part_of(key: Key) -> Part | None:
    """Return the part that a phase belongs to; None for what is carried over."""
    role, phase = key[0], parent_phase(key[1])
    if role is Role.ROLLOUT:
        return _ROLLED_OUT.get(phase)
    if role is Role.TRAINER:
        return "handover" if phase is Phase.WEIGHT_SYNC else _TRAINED.get(phase)
    return None


_ROLLED_OUT: dict[Phase, Part] = {Phase.ROLLOUT: "rollout", Phase.WEIGHT_SYNC: "load"}
_TRAINED: dict[Phase, Part] = {Phase.TRAIN: "train", Phase.OLD_LOGPROB: "train", Phase.REF_LOGPROB: "train"}


def parts_of(schedule: Literal["sync", "one_step_off"], alone_s: Mapping[Key, float]) -> PartSeconds:
    """Add phases up to parts."""
    total: dict[str, list[float]] = {}
    for key, seconds in alone_s.items():
        total.setdefault(part_of(key) or _RESTS[side_of(key)], []).append(seconds)
    return PartSeconds(schedule=schedule, **{name: math.fsum(seconds) for name, seconds in total.items()})


_RESTS = {Side.ROLLOUT: "rollout_rest", Side.TRAINER: "trainer_rest", Side.SERIAL: "serial_rest"}


def priced_by(planned: PlannedWork) -> dict[Part, frozenset[str]]:
    """Return the knobs that choose each part's cost curves."""
    found: dict[Part, set[str]] = {}
    for item in planned.items:
        part = part_of((item.role, item.phase))
        if part is not None:
            found.setdefault(part, set()).update(item.when)
    return {part: frozenset(knobs) for part, knobs in found.items()}
