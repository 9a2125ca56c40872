"""New weights on their way to the rollout, and both sides taking turns on shared devices."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncCosts:
    """Hand-over of one weight version: ``SyncCosts(num_bytes=15e9, bytes_per_s=20e9, pause_s=0.4)`` takes 1.15 s.

    Bytes, tensors and a pause are separate because their remedies are: a delta, bucketing, and a warm engine.
    """

    num_bytes: float = 0.0
    bytes_per_s: float = math.inf
    """What one replica receives at; `is_broadcast` says whether all do at once."""
    num_tensors: int = 0
    per_tensor_s: float = 0.0
    pause_s: float = 0.0
    """Fixed: engines stop, caches are emptied, engines go on."""
    is_broadcast: bool = True
    """All replicas receive at once; otherwise one after the other."""

    def seconds(self, num_replicas: int) -> float:
        """Return the seconds that both sides stand still."""
        once = self.num_bytes / self.bytes_per_s + self.num_tensors * self.per_tensor_s
        return self.pause_s + once * (1 if self.is_broadcast else num_replicas)


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchCosts:
    """Shared devices: weights, caches and optimizer state go out of the way and come back, once each per step."""

    to_train_s: float = 0.0
    to_rollout_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Per step."""
        return self.to_train_s + self.to_rollout_s
