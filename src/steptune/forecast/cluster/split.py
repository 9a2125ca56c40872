"""Which rank trains which rows, and in which micro-batches: where imbalance comes from."""

import heapq
import itertools
from collections.abc import Sequence
from typing import Literal

from steptune.forecast.cluster.work import GroupShape

Balance = Literal["rows", "tokens", "cost"]
"""Ranks get equally many neighbouring rows; rows of about equal tokens; or of about equal cost, squares included."""


def rows_of(groups: Sequence[GroupShape]) -> list[int]:
    """Return the positions of every row of a batch, prompt included, groups in order."""
    return [group.prompt + row.tokens for group in groups for row in group.rows]


def split_rows(rows: Sequence[int], num_ranks: int, balance: Balance, weight: Sequence[float]) -> list[list[int]]:
    """Return each rank's rows. ``weight`` is each row's cost, used by the rule `cost`.

    `rows` cuts the batch where it stands. The two others give the largest row left to the least loaded rank
    (longest processing time first, Graham 1969).
    """
    if balance == "rows":
        edges = [len(rows) * rank // num_ranks for rank in range(num_ranks + 1)]
        return [list(rows[a:b]) for a, b in itertools.pairwise(edges)]
    size = rows if balance == "tokens" else weight
    shares: list[list[int]] = [[] for _ in range(num_ranks)]
    loads: list[tuple[float, int]] = [(0.0, rank) for rank in range(num_ranks)]
    for i in sorted(range(len(rows)), key=lambda i: -size[i]):
        load, rank = loads[0]
        shares[rank].append(rows[i])
        heapq.heapreplace(loads, (load + size[i], rank))
    return shares


def micro_batches(rows: Sequence[int], budget: int) -> list[list[int]]:
    """Pack rows into micro-batches of at most ``budget`` positions, longest first; a longer row stands alone.

    >>> micro_batches([3, 9, 4, 2], 8)
    [[9], [4, 3], [2]]
    """
    packed: list[list[int]] = []
    room = -1
    for row in sorted(rows, reverse=True):
        if row > room:
            packed.append([])
            room = budget
        packed[-1].append(row)
        room -= row
    return packed


def padded_micro_batches(rows: Sequence[int], count: int) -> list[list[int]]:
    """Cut rows where they stand into micro-batches of ``count``, each row as wide as its micro-batch's widest.

    >>> padded_micro_batches([3, 9, 4, 2, 5], 2)
    [[9, 9], [4, 4], [5]]
    """
    cut = [rows[start : start + count] for start in range(0, len(rows), count)]
    return [[max(own)] * len(own) for own in cut]
