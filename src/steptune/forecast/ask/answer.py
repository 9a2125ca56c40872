"""What the step model answers about a log. Every figure is an Estimate; what is a prior says so."""

from typing import Literal

from steptune.core.estimate import Estimate
from steptune.core.lag import LagShare
from steptune.core.phase import Role
from steptune.core.profile import Origin
from steptune.core.records import Record


class Configuration(Record):
    """How many devices do what: ``Configuration(num_devices=40, train_devices=24, rollout_devices=16, ...)``."""

    num_devices: int
    train_devices: int
    rollout_devices: int
    shares_devices: bool
    """Both sides take turns on the same devices."""
    schedule: Literal["sync", "async"]
    max_lag: int
    """Most updates that samples are behind; 0 when synchronous."""


class RoleSeconds(Record):
    """One role's step: ``RoleSeconds(role=TRAINER, busy=Estimate(...), idle=Estimate(...), phases={...})``."""

    role: Role
    phases: dict[str, Estimate]
    """Seconds per step of a mean device, busy only."""
    busy: Estimate
    idle: Estimate
    """Waiting for the other role, or for the slowest of its own."""


class Used(Record):
    """A parameter of the forecast: measured with its lines, or a prior with its source."""

    name: str
    value: Estimate
    origins: tuple[Origin, ...] = ()
    """Lines of the log it was read from; empty for a prior."""
    where: str
    """Those lines or the source in words."""


class Unknown(Record):
    """What was assumed because nobody said, what it costs, and what would end it."""

    what: str
    assumed: str
    moves: Estimate | None
    """Largest change of the answer over the values that are as likely; None where it cannot be asked."""
    narrow: str
    """The exact switch or number."""


class Ranked(Record):
    """One row of a sweep: the best split of one device count under one way to meet."""

    configuration: Configuration
    step_time: Estimate
    ratio: Estimate
    """To the measured step."""
    device_ratio: Estimate
    """Device-seconds per step, to the measured."""


class StepAnswer(Record):
    """The answer to one question."""

    question: str
    """In words."""
    framework: str | None
    measured_configuration: Configuration
    measured: Estimate
    """Step time of the log."""
    configuration: Configuration
    step_time: Estimate
    """Seconds per step, 80 % interval."""
    ratio: Estimate
    """To the measured step, 80 % interval."""
    roles: tuple[RoleSeconds, ...]
    exposed_wait: Estimate
    """Seconds per step that the trainer waits for samples."""
    lag: tuple[LagShare, ...]
    dropped: Estimate
    """Part of completion tokens thrown away."""
    parameters: tuple[Used, ...]
    num_free_parameters: int
    """Constants read off this log; priors are not counted."""
    unknown: tuple[Unknown, ...]
    """Largest first."""
    cannot_know: tuple[str, ...]
    ranking: tuple[Ranked, ...] = ()
    """Of a sweep, best first; empty otherwise."""
    is_proven: bool = True
    """Whether no split that was left out can beat the one answered with."""
    notes: tuple[str, ...] = ()
