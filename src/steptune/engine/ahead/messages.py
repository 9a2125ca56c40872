"""What trainer and rollout worker of an asynchronous run say to each other.

::

    trainer -> worker   Standing    where the trainer is, the newest counts; and places handed out, which all count
    worker -> trainer   Made        groups that are complete, in any order
                        Paused      the answer to a Standing that asks for a pause: nothing is in the making
"""

from dataclasses import dataclass

from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.engine.ahead.groups import Group
from steptune.engine.events import Span
from steptune.engine.types import RolloutBatch, RolloutTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where the trainer is: ``Standing(version=7, num_gone=56, probe=None, is_paused=False, places=(72, 73))``."""

    version: int
    """Newest published weights."""
    num_gone: int
    """Groups trained on or dropped."""
    probe: RolloutBatch | None
    """Rows to score under exactly this version."""
    is_paused: bool
    places: tuple[int, ...]
    """Places of the queue that are this worker's to make, beyond those it was told of; rising (`deal`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """Groups that have left the stream, and what happened since the last message."""

    groups: tuple[Group, ...]
    trace: RolloutTrace
    spans: list[Span]
    wall_s: float
    """From the message before (or the end of a pause) to this one; its spans add up to it."""
    probe_version: int | None
    probe_logprobs_BT: Tensor | None
    peak_memory_bytes: int | None
    """Of this worker's process, without the shared slots of the weights."""
    arrivals: tuple[Arrival, ...]
    """What the hand-overs since then brought."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Nothing is in the making."""
