"""Roles and phases: the two axes every second of a step is booked on."""

from enum import StrEnum


class Role(StrEnum):
    """Who spends the time. Per role, busy plus idle is wall time."""

    TRAINER = "trainer"
    ROLLOUT = "rollout"
    ENVIRONMENT = "environment"
    CONTROLLER = "controller"


class Phase(StrEnum):
    """What the time is spent on: the canonical phases of an RL step.

    A child phase is written ``parent/child`` in spans and profiles, for example ``rollout/decode``.
    """

    ROLLOUT = "rollout"
    ENV_WAIT = "env_wait"
    REWARD = "reward"
    REF_LOGPROB = "ref_logprob"
    OLD_LOGPROB = "old_logprob"
    ADVANTAGE = "advantage"
    TRAIN = "train"
    WEIGHT_SYNC = "weight_sync"
    MODE_SWITCH = "mode_switch"
    VALIDATE = "validate"
    CHECKPOINT = "checkpoint"
    UNATTRIBUTED = "unattributed"


class SpanKind(StrEnum):
    """Busy time and waiting are different types: a wait is never read as capacity."""

    BUSY = "busy"
    EXPOSED_WAIT = "exposed_wait"


def parent_phase(name: str) -> Phase:
    """Return the canonical phase that ``name`` (``parent`` or ``parent/child``) belongs to.

    Raises:
        ValueError: the parent is not a canonical phase.
    """
    return Phase(name.split("/", 1)[0])


def is_child(name: str) -> bool:
    """Return whether ``name`` is a child phase, whose time is inside its parent's."""
    return "/" in name
