"""What is asked of a replica that has a process of its own, and what it answers. Weights travel by `weights` alone."""

from dataclasses import dataclass

from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadOrder:
    """Take over the weights that lie in the channel."""

    number: int
    """Of the order; the answer bears it too."""
    step: int
    version: int
    """What lies there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateOrder:
    """Make these rows; see `RolloutEngine.generate`."""

    number: int
    step: int
    prompts: PromptBatch
    max_completion_len: int
    temperature: float
    seed: int | Tensor
    limits_B: Tensor | None
    forced_lengths_B: Tensor | None
    greedy: bool


Order = LoadOrder | GenerateOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What arrived."""

    number: int
    arrival: Arrival


@dataclass(frozen=True, kw_only=True, slots=True)
class Generated:
    """The ordered rows, in their order."""

    number: int
    batch: RolloutBatch
    trace: RolloutTrace
    busy_s: float
    """Wall seconds it took the replica."""
    peak_memory_bytes: int | None
    """Of its process, without the shared slots of the weights."""


Answer = Loaded | Generated
