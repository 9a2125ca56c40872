"""A round of generation as single groups, and groups of any rounds as one step's batch.

The surprise: what belongs to a round and not to a group (what it cost, how many of its groups were mixed) travels
with the round's first group, or is repeated on all, so that a step counts every round once even when it takes
groups of two.
"""

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

    batch: RolloutBatch
    raw_reward_B: Tensor
    oldest_version: int
    num_tokens: int
    mixed_groups_frac: float
    """Of its round."""
    traces: tuple[RolloutTrace, ...]
    """Of its round; empty on every group but the first."""


def split_groups(produced: Produced, group_size: int) -> list[Group]:
    """Return the groups of a round, in order."""
    batch, groups = produced.batch, list[Group]()
    for start in range(0, len(batch.lengths_B), group_size):
        rows_B = torch.arange(start, start + group_size)
        rows = take_rows(batch, rows_B, group_size)
        groups.append(
            Group(
                batch=rows,
                raw_reward_B=produced.raw_reward_B[rows_B],
                oldest_version=int(rows.versions_BT[rows.mask_BT].min()),
                num_tokens=int(rows.lengths_B.sum()),
                mixed_groups_frac=produced.mixed_groups_frac,
                traces=produced.traces if start == 0 else (),
            )
        )
    return groups


def join_groups(groups: Sequence[Group], group_size: int) -> Produced:
    """Return groups as one batch, in order."""
    joined = join_batches([group.batch for group in groups])
    return Produced(
        batch=take_rows(joined, torch.arange(len(joined.lengths_B)), group_size),
        raw_reward_B=torch.cat([group.raw_reward_B for group in groups]),
        traces=tuple(trace for group in groups for trace in group.traces),
        mixed_groups_frac=fmean(group.mixed_groups_frac for group in groups),
    )
