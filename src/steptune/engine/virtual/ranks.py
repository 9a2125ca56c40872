"""Data-parallel trainer ranks: each one's rows, its micro-batches, and what they cost. Pure.

The surprise: equally many rows are not equal work. The ranks meet in the all-reduce, so the slowest sets the pace.
"""

from collections.abc import Sequence

from steptune.engine.plan import plan_batch
from steptune.engine.virtual.costs import Costs
from steptune.engine.virtual.spec import ClusterSpec, slowdown_of
from steptune.engine.virtual.work import Group

RowLengths = tuple[int, int]
"""Prompt and completion tokens."""


def rank_seconds(spec: ClusterSpec, costs: Costs, groups: Sequence[Group]) -> list[float]:
    """Return each rank's forward and backward seconds over its packed micro-batches."""
    rows = [(group.work.prompt, row.completion) for group in groups for row in group.work.rows]
    shares = _by_tokens(rows, spec.num_trainers) if spec.balance == "tokens" else _by_rows(rows, spec.num_trainers)
    return [
        _seconds(share, spec.micro_batch_tokens, costs) * slowdown_of(spec.trainer_slowdown, rank)
        for rank, share in enumerate(shares)
    ]


def _seconds(rows: Sequence[RowLengths], micro_batch_tokens: int, costs: Costs) -> float:
    if not rows:
        return 0.0
    prompts, completions = zip(*rows, strict=True)
    plan = plan_batch(
        prompts,
        completions,
        layout="packed",
        token_budget=micro_batch_tokens,
        max_completion_len=max(completions),
    )
    return sum(costs.train_s(micro.num_positions) for micro in plan.micro_batches)


def _by_rows(rows: Sequence[RowLengths], num_ranks: int) -> list[Sequence[RowLengths]]:
    edges = [len(rows) * i // num_ranks for i in range(num_ranks + 1)]
    return [rows[edges[i] : edges[i + 1]] for i in range(num_ranks)]


def _by_tokens(rows: Sequence[RowLengths], num_ranks: int) -> list[Sequence[RowLengths]]:
    return [[rows[i] for i in share] for share in spread([sum(row) for row in rows], num_ranks)]


def spread(sizes: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Return which pieces each rank gets: the largest piece left to the rank with the least (Graham 1969).

    >>> spread([5, 1, 4], 2)
    [[0], [2, 1]]
    """
    shares: list[list[int]] = [[] for _ in range(num_ranks)]
    loads = [0] * num_ranks
    for piece in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        rank = min(range(num_ranks), key=lambda r: (loads[r], r))
        shares[rank].append(piece)
        loads[rank] += sizes[piece]
    return shares
