"""A batch's rows in shares, one for each replica, and what the replicas made of them as one batch again. Pure.

Shape letters: B rows of the batch, G groups, k rows of a share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from steptune.engine.knobs import RolloutRouting
from steptune.engine.produce import join_batches, take_rows
from steptune.engine.routing import RULES, group_tokens, route
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace


def shares(
    prompts: PromptBatch,
    limit_B: Tensor,
    *,
    num_replicas: int,
    routing: RolloutRouting,
    share_prefill: bool,
    home_of: Mapping[int, int],
) -> list[Tensor]:
    """Return each replica's rows, int64 [k], in the batch's order; a group, whose rows are adjacent, stays whole.

    ``limit_B``: tokens that each row may say. ``home_of``: replicas that hold earlier turns, by problem; their groups
    go there, whatever the rule says, and count as its load.
    """
    group_B = _group_index(prompts)
    rows_G = [(group_B == g).nonzero()[:, 0] for g in range(int(group_B[-1]) + 1)]
    sizes = [
        group_tokens(prompts.lengths_B[row_g].tolist(), limit_B[row_g].tolist(), share_prefill=share_prefill)
        for row_g in rows_G
    ]
    home_G = [home_of.get(int(prompts.problem_B[row_g[0]])) for row_g in rows_G]
    loads = [sum(size for size, home in zip(sizes, home_G, strict=True) if home == r) for r in range(num_replicas)]
    away = [g for g, home in enumerate(home_G) if home is None]
    replica_G = torch.tensor([num_replicas if home is None else home for home in home_G])
    for number, replica in route(RULES[routing], [sizes[g] for g in away], loads, 0):
        replica_G[away[number]] = replica
    return [(replica_G[group_B] == r).nonzero()[:, 0] for r in range(num_replicas)]


def merged(prompts: PromptBatch, rows: Sequence[Tensor], parts: Sequence[RolloutBatch]) -> RolloutBatch:
    """Return ``parts``, whose rows are ``rows`` of ``prompts``, as one batch, rows in the order of ``prompts``."""
    if len(parts) == 1:
        return replace(parts[0], prompts=prompts)
    return replace(take_rows(join_batches(parts), torch.cat(list(rows)).argsort(), 1), prompts=prompts)


def summed(traces: Sequence[RolloutTrace]) -> RolloutTrace:
    """Return what all replicas did together; seconds are theirs added up, though they passed side by side."""
    return RolloutTrace(
        prefill_tokens=sum(trace.prefill_tokens for trace in traces),
        decode_iterations=sum(trace.decode_iterations for trace in traces),
        reused_tokens=sum(trace.reused_tokens for trace in traces),
        running_I=tuple(rows for trace in traces for rows in trace.running_I),
        prefill_s=sum(trace.timed_s[0] for trace in traces),
        decode_s=sum(trace.timed_s[1] for trace in traces),
    )


def _group_index(prompts: PromptBatch) -> Tensor:
    """Return int64 [B], groups numbered from 0 in the order of their rows."""
    group_B = prompts.group_B
    is_first_B = torch.ones_like(group_B, dtype=torch.bool)
    is_first_B[1:] = group_B[1:] != group_B[:-1]
    return is_first_B.cumsum(0) - 1
