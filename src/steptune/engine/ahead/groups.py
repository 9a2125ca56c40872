"""Verified groups on their way to the trainer, and a step's worth of them as one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from steptune.engine.produce import Produced, join_batches, take_rows
from steptune.engine.types import RolloutBatch, RolloutTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One prompt's finished rollouts."""

    number: int
    """Its place in the queue."""
    batch: RolloutBatch
    raw_reward_B: Tensor
    mixed_groups_frac: float
    """Of the groups that were made for this place, with dynamic sampling maybe several."""

    @property
    def oldest_version(self) -> int:
        """Version that sampled its oldest token."""
        return int(self.batch.versions_BT[self.batch.mask_BT].min())

    @property
    def num_tokens(self) -> int:
        """Completion tokens."""
        return int(self.batch.lengths_B.sum())


def join_groups(groups: Sequence[Group], group_size: int, traces: tuple[RolloutTrace, ...]) -> Produced:
    """Return groups as one batch, in order; ``traces`` is what making them cost."""
    joined = join_batches([group.batch for group in groups])
    return Produced(
        batch=take_rows(joined, torch.arange(len(joined.lengths_B)), group_size),
        raw_reward_B=torch.cat([group.raw_reward_B for group in groups]),
        traces=traces,
        mixed_groups_frac=fmean(group.mixed_groups_frac for group in groups),
    )
