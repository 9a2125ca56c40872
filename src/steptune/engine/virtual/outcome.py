"""What a virtual run gives: records whose every time is an Estimate of source `virtual`, or says so in its name."""

from statistics import fmean, median
from typing import Literal

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Role
from steptune.core.records import Record

NOTE = "virtual clock: measured CPU seconds on invented devices, never wall time"
"""Said beside every virtual time."""


class DeviceTime(Record):
    """One device during one step: busy, measured waiting and the rest add up to the step."""

    role: Role
    index: int
    virtual_busy_s: float
    virtual_wait_s: float
    virtual_idle_s: float


class VirtualStep(Record):
    """One step, from the end of one update to the end of the next."""

    source: Literal[Source.VIRTUAL] = Source.VIRTUAL
    step: int
    virtual_s: float
    devices: tuple[DeviceTime, ...]
    rows_by_lag: dict[int, int]
    """Trained rows by the age of their oldest token, in updates."""

    def busy_frac(self, role: Role) -> float:
        """Return the busy part of a role's devices."""
        return fmean(d.virtual_busy_s / self.virtual_s for d in self.devices if d.role is role)

    def wait_s(self, role: Role) -> float:
        """Return the mean waiting of a role's devices, in virtual seconds."""
        return fmean(d.virtual_wait_s for d in self.devices if d.role is role)


class VirtualRun(Record):
    """A whole run.

    Completion tokens are conserved: ``num_generated == num_trained + num_buffered + num_dropped``.
    """

    source: Literal[Source.VIRTUAL] = Source.VIRTUAL
    steps: tuple[VirtualStep, ...]
    num_devices: int
    num_generated: int
    num_trained: int
    num_buffered: int
    """Generated, but not trained on when the run was stopped."""
    num_dropped: int
    """Thrown away because they had become too old."""
    num_recomputed: int
    """Positions prefilled again after a preemption; no completion token among them is generated twice."""
    num_preempted: int

    def step_time(self, num_warmup: int) -> Estimate:
        """Return the mean step after warm-up, with the spread of the steps as its interval.

        Raises:
            ValueError: no step is left.
        """
        seconds = [step.virtual_s for step in self.steps[num_warmup:]]
        if not seconds:
            raise ValueError(f"{len(self.steps)} steps leave nothing after {num_warmup} of warm-up")
        return Estimate(
            value=fmean(seconds),
            low=min(seconds),
            high=max(seconds),
            unit="s",
            source=Source.VIRTUAL,
            n=len(seconds),
            note=f"{NOTE}; shortest and longest step, median {median(seconds):.4g}",
        )

    @property
    def max_lag(self) -> int:
        """Return the age of the oldest token trained on, in updates."""
        return max(lag for step in self.steps for lag in step.rows_by_lag)
