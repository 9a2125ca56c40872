"""A batch's rows in shares, one for each replica, and what the replicas made of them as one batch again. Pure.

Shape letters: B rows of the batch, G groups, k rows of a share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from steptune.engine.knobs import RolloutRouting
from steptune.engine.produce import join_batches, take_rows
from steptune.engine.routing import Rule, route
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace

RULES: dict[RolloutRouting, Rule] = {"round_robin": "round_robin", "least_tokens": "least_loaded"}
"""The rule of `engine.routing` behind each value of the knob; its sizes are tokens."""


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

    Tokens of a group are its prompt's, once where the prefill is shared, and those its rows may say: what a row *will*
    say is known to nobody, and forced lengths, which stand for it, are not looked at. ``home_of``: replicas that hold
    earlier turns, by problem; its groups go there, whatever the rule says.
    """
    sizes = group_tokens(prompts, limit_B, share_prefill=share_prefill)
    group_B, problem_B = _group_index(prompts), prompts.problem_B
    first_G = [int((group_B == g).nonzero()[0]) for g in range(len(sizes))]
    home_G = [home_of.get(int(problem_B[row])) for row in first_G]
    loads = [sum(size for size, home in zip(sizes, home_G, strict=True) if home == r) for r in range(num_replicas)]
    away = [g for g, home in enumerate(home_G) if home is None]
    replica_G = torch.tensor([num_replicas if home is None else home for home in home_G])
    for number, replica in route(RULES[routing], [sizes[g] for g in away], loads, 0):
        replica_G[away[number]] = replica
    return [(replica_G[group_B] == r).nonzero()[:, 0] for r in range(num_replicas)]


def group_tokens(prompts: PromptBatch, limit_B: Tensor, *, share_prefill: bool) -> list[float]:
    """Return how many tokens each group may need: its prompt's, and those its rows may say."""
    group_B = _group_index(prompts)
    num_groups = int(group_B[-1]) + 1
    said_G = torch.zeros(num_groups).index_add_(0, group_B, limit_B.float())
    num_prompt_G = torch.zeros(num_groups).index_add_(0, group_B, prompts.lengths_B.float())
    rows_G = torch.zeros(num_groups).index_add_(0, group_B, torch.ones_like(limit_B, dtype=torch.float32))
    return (said_G + (num_prompt_G / rows_G if share_prefill else num_prompt_G)).tolist()


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
