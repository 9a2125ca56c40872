"""Which replica gets which group. Pure: loads in, choices out."""

from collections.abc import Sequence

from steptune.engine.virtual.spec import Routing
from steptune.engine.virtual.work import Group


def route(
    routing: Routing,
    groups: Sequence[Group],
    loads: Sequence[float],
    first: int,
) -> list[tuple[Group, int]]:
    """Return (group, replica) in the order in which they are handed out.

    ``loads`` is what each replica still has to do (rows; predicted tokens for `longest_first`), ``first`` the
    replica whose turn it is. `longest_first` is the classic rule of longest processing time, by *predicted* length.
    """
    if routing == "round_robin":
        return [(group, (first + i) % len(loads)) for i, group in enumerate(groups)]
    left = list(loads)
    ordered = sorted(groups, key=lambda g: -g.work.predicted) if routing == "longest_first" else groups
    placed: list[tuple[Group, int]] = []
    for group in ordered:
        replica = min(range(len(left)), key=lambda r: (left[r], r))
        left[replica] += group.work.predicted if routing == "longest_first" else len(group.work.rows)
        placed.append((group, replica))
    return placed
