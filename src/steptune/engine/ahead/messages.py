"""What trainer and rollout worker of an asynchronous run say to each other.

::

    trainer -> worker   Standing    where the trainer is: the newest one counts, older ones are forgotten
    worker -> trainer   Round       one round's finished groups
                        Paused      the answer to a Standing that asks for a pause: nothing is in flight
"""

from dataclasses import dataclass

from torch import Tensor

from steptune.engine.events import Span
from steptune.engine.produce import Produced
from steptune.engine.types import RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where the trainer is: ``Standing(version=7, num_gone=56, probe=None, is_paused=False, first_round=0)``."""

    version: int
    """Newest published weights."""
    num_gone: int
    """Groups trained on or dropped."""
    probe: RolloutBatch | None
    """Rows to score under exactly this version."""
    is_paused: bool
    first_round: int
    """Round the stream begins with; above 0 in a run that was resumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One round of generation."""

    number: int
    produced: Produced
    spans: list[Span]
    wall_s: float
    """From the round before it (or the end of a pause) to this one; its spans add up to it."""
    probe_version: int | None
    probe_logprobs_BT: Tensor | None
    peak_memory_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Nothing is in flight."""
