"""A bottleneck: what holds the step up, the evidence, and the most that removing it could bring."""

from enum import StrEnum

from steptune.core.estimate import Estimate
from steptune.core.records import Record


class BottleneckKind(StrEnum):
    """Named causes of a slow step."""

    ROLLOUT_BOUND = "rollout_bound"
    TRAINER_BOUND = "trainer_bound"
    LONG_TAIL = "long_tail"
    PADDING_WASTE = "padding_waste"
    RECOMPUTE_COST = "recompute_cost"
    SERIALISED_SIDES = "serialised_sides"
    WEIGHT_SYNC_BOUND = "weight_sync_bound"
    ENVIRONMENT_BOUND = "environment_bound"
    MODE_SWITCH = "mode_switch"
    REDUNDANT_LOGPROB = "redundant_logprob"
    THREAD_SPLIT = "thread_split"
    CHECKPOINT_BOUND = "checkpoint_bound"
    WASTED_GENERATION = "wasted_generation"
    BACKWARD_SLOW = "backward_slow"
    SMALL_DECODE_BATCH = "small_decode_batch"
    IDLE_ENGINES = "idle_engines"
    VALIDATION_BOUND = "validation_bound"


class Bottleneck(Record):
    """One cause.

    Example: padding: 41 % of trained positions are padding; without them the step would be 0.83 s of 1.02 s.
    """

    kind: BottleneckKind
    share: Estimate
    """Part of the step it accounts for, 0..1."""
    ceiling: Estimate
    """Step time in seconds if this cost were zero: no change that treats it can do better."""
    evidence: str
    """The measured facts, in one sentence."""
    levers: tuple[str, ...] = ()
    """Knobs that treat it."""
