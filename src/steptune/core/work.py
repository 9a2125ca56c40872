"""Planned work: what a configuration will ask of the machine, in countable pieces.

A framework's adapter turns settings and lengths into counts; the forecaster turns counts into seconds
with measured cost curves. Neither knows the other's trade.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.job import Objective
from steptune.core.knob import KnobValue
from steptune.core.lag import LagPlan
from steptune.core.phase import Role
from steptune.core.records import Record

IDLE_THREADS, SLEEPING = "idle_threads", "sleeping"
"""Not a knob, but a condition that knobs bring about and curves are measured under: threads that sleep when idle."""


class OneThread(Record):
    """What one thread would take, where a quota gives two threads fewer cores than two.

    Example: 1.5 cores: ``OneThread(when={"train_threads": 1, "train_dtype": "fp32"}, cores=1.5)``.
    """

    when: dict[str, KnobValue]
    """Settings of the curve."""
    cores: Annotated[float, Field(gt=0)]
    """Cores that the quota gives: all work together cannot be done faster than one thread's seconds over them."""


class WorkItem(Record):
    """``count`` repetitions of one primitive at one size.

    Example: 31 decode iterations with 96 running rows::

        WorkItem(role=Role.ROLLOUT, phase="rollout/decode", curve="decode",
                 when={"rollout_threads": 2, "rollout_dtype": "fp32"}, x=96, count=31)
    """

    role: Role
    phase: str
    curve: str
    """Name of the cost curve that prices it."""
    when: dict[str, KnobValue]
    """Settings the curve must have been measured under."""
    x: float
    """Size in the curve's unit."""
    count: float
    """Repetitions per step (a mean over the steps planned, so it may be fractional)."""
    slowdown: Annotated[float, Field(ge=1)] = 1.0
    """Seconds under this plan / seconds the curve gives: threads over cores where a quota gives fewer cores."""
    one_thread: OneThread | None = None
    """Makes `slowdown` an upper bound: threads that wait for each other use less than their cores."""


class PlannedWork(Record):
    """One step's work under one configuration, averaged over the reference lengths."""

    items: tuple[WorkItem, ...]
    schedule: Literal["sync", "one_step_off"]
    lag: int
    """Most updates between sampling and training at steady state: a bound."""
    ages: LagPlan | None = None
    """What of the ages below that bound is known before it runs; None where the adapter does not say."""
    trainer_cores: float
    """Cores the trainer role uses while busy."""
    rollout_cores: float
    memory_bytes: float
    """Peak memory it needs beyond the baseline process, as the adapter's own model has it."""
    padded_tokens: float
    """Positions computed in training per step, padding included."""
    active_tokens: float
    """Positions that are real tokens."""

    @property
    def num_devices(self) -> float:
        """Devices the configuration holds: sides that take turns share theirs, sides that overlap hold both."""
        if self.schedule == "sync":
            return max(self.trainer_cores, self.rollout_cores)
        return self.trainer_cores + self.rollout_cores


def objective_weight(objective: Objective, planned: PlannedWork, planned_baseline: PlannedWork) -> float:
    """Return what a ratio of step times is multiplied with to become a ratio of the objective.

    Example: device-seconds per step, one core against the baseline's two: 0.5, so that a step of 1.2 times the
    length counts as 0.6.
    """
    if objective is Objective.STEP_TIME:
        return 1.0
    return planned.num_devices / planned_baseline.num_devices
