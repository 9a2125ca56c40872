"""Knobs: what can be turned, what turning it may touch, and what it costs to turn."""

from collections.abc import Mapping
from enum import StrEnum

from steptune.core.phase import Role
from steptune.core.records import Record

KnobValue = bool | int | float | str | None
"""A knob's setting. None means the feature is off."""

Settings = Mapping[str, KnobValue]
"""A whole configuration: every knob of a framework by name."""


class Effect(StrEnum):
    """What a knob may touch besides speed. The class decides the proof a change owes.

    The order matters: a combination owes the proof of its heaviest member.
    """

    NONE = "none"
    """Same mathematics up to rounding; update parity settles it."""
    PRECISION = "precision"
    """Other number format or kernel; mismatch guards and a reward test."""
    STALENESS = "staleness"
    """Rollouts come from older weights; off-policyness guards and a reward test."""
    ALGORITHM = "algorithm"
    """Another algorithm. Never tuned."""


EFFECT_ORDER = (Effect.NONE, Effect.PRECISION, Effect.STALENESS, Effect.ALGORITHM)
"""Lightest to heaviest burden of proof."""


class Restart(StrEnum):
    """What it costs to change the knob."""

    HOT = "hot"
    """Between two steps of a running job."""
    RELAUNCH = "relaunch"
    """The job's processes start again."""
    REALLOCATE = "reallocate"
    """Devices are split anew."""


class KnobSpec(Record):
    """One knob of one framework.

    Example::

        KnobSpec(name="layout", side=Role.TRAINER, values=("padded", "sorted", "packed"),
                 effect=Effect.NONE, restart=Restart.HOT, what="how rows become micro-batches")
    """

    name: str
    """Name in the framework's own language."""
    side: Role
    """The role whose time it moves."""
    values: tuple[KnobValue, ...]
    """The values the tuner may try, in order."""
    effect: Effect
    """Label of what it touches. A value labelled *none* that fails update parity is relabelled *precision*, and banned
    unless `limits.allow_other_updates`."""
    restart: Restart
    """What it costs to turn."""
    what: str
    """One line for people."""


def heaviest(effects: tuple[Effect, ...]) -> Effect:
    """Return the effect with the heaviest burden of proof (NONE for an empty tuple)."""
    return max(effects, key=EFFECT_ORDER.index, default=Effect.NONE)


def num_replicas(settings: Settings) -> int:
    """Return how many rollout replicas a configuration has: `rollout_replicas`, 1 for a framework without the knob."""
    value = settings.get("rollout_replicas")
    return value if isinstance(value, int) and value > 1 else 1
