"""What the first rank asks of the second one, and what it answers. Weights and gradients never travel: see `memory`."""

from dataclasses import dataclass

from torch import Tensor

from steptune.engine.gradients import Share
from steptune.engine.knobs import EngineKnobs
from steptune.engine.types import PreparedBatch, RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class PassOrder:
    """Compute log-probs of your rows, forward only."""

    number: int
    """Of the order; the answer bears it too."""
    step: int
    knobs: EngineKnobs
    rollout: RolloutBatch
    batch_tokens: int
    of_reference: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientOrder:
    """Put the gradient of your rows of one optimizer update into the shared buffer."""

    number: int
    step: int
    knobs: EngineKnobs
    prepared: PreparedBatch | None
    """The whole batch, every rank's rows; None goes on with the last one."""
    update: int


Order = PassOrder | GradientOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class PassAnswer:
    """Log-probs [B, T] of the second rank's rows, 0 elsewhere."""

    number: int
    logprobs_BT: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientAnswer:
    """What lies in the shared buffer, and what it took."""

    number: int
    share: Share
    cur_BT: Tensor
    """Log-probs of the second rank's rows of this update before it, 0 elsewhere."""
    busy_s: float
    """Wall seconds of planning, forward, backward and writing the gradient."""
    num_micro_batches: int
    padded_tokens: int
    active_tokens: int
    """The last three are of the second rank's rows in all updates of the batch."""
    peak_memory_bytes: int | None


Answer = PassAnswer | GradientAnswer
