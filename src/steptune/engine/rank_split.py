"""Which trainer rank computes which rows of an optimizer update. Pure: engine and forecaster split with the same code.

Longest first onto the rank with the fewest tokens so far (Graham 1969, https://doi.org/10.1137/0117039: the longer of
two is at most 7/6 of the best). Surprise: a rank may be left without rows, but never the first one, so there is always
a gradient to start from.
"""

from collections.abc import Sequence


def split_parts(parts: Sequence[Sequence[int]], costs: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Return the rows of every rank, each in increasing order; the rows of a part stay together.

    ``costs`` are positions per part.

    >>> split_parts([[0], [1], [2, 3]], [5, 9, 4], 2)
    [[1], [0, 2, 3]]
    """
    ranks: list[list[int]] = [[] for _ in range(num_ranks)]
    loads = [0] * num_ranks
    for index in sorted(range(len(parts)), key=lambda i: -costs[i]):
        least = loads.index(min(loads))
        loads[least] += costs[index]
        ranks[least] += parts[index]
    return [sorted(rows) for rows in ranks]


def split_rows(rows: Sequence[int], tokens_B: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Return the rows of every rank where each row may go by itself; ``tokens_B`` by index in the batch."""
    return split_parts([[row] for row in rows], [tokens_B[row] for row in rows], num_ranks)


def split_groups(
    rows: Sequence[int],
    group_B: Sequence[int],
    prompt_lengths_B: Sequence[int],
    completion_lengths_B: Sequence[int],
    num_ranks: int,
) -> list[list[int]]:
    """Return the rows of every rank with groups kept whole, each at the price of one prompt and its completions."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(group_B[row], []).append(row)
    parts = list(groups.values())
    costs = [prompt_lengths_B[part[0]] + sum(completion_lengths_B[row] for row in part) for part in parts]
    return split_parts(parts, costs, num_ranks)
