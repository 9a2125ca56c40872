"""Which replica gets which group: the rule of the engine's own replicas and of the virtual cluster's. Pure.

Sizes and loads are in one unit, the caller's: rows, or tokens as far as they can be known beforehand. A group is never
split, so its prompt is computed once. The surprise: what is fair in tokens need not be fair in time, because a decode
iteration costs much the same for few rows as for many; the longest row of a replica decides.
"""

from collections.abc import Sequence
from typing import Literal

from steptune.engine.knobs import RolloutRouting

Rule = Literal["round_robin", "least_loaded", "longest_first"]

RULES: dict[RolloutRouting, Rule] = {"round_robin": "round_robin", "least_tokens": "least_loaded"}
"""The rule behind each value of the knob; its sizes are `group_tokens`."""


def route(rule: Rule, sizes: Sequence[float], loads: Sequence[float], first: int) -> list[tuple[int, int]]:
    """Return (group, replica) in the order in which groups are handed out.

    ``loads`` is what each replica still has to do, ``first`` the replica whose turn it is. `longest_first` is the
    classic rule of longest processing time (Graham 1969, https://doi.org/10.1137/0117039): the largest group first, to
    whoever has least.
    """
    if rule == "round_robin":
        return [(group, (first + group) % len(loads)) for group in range(len(sizes))]
    left, order = list(loads), range(len(sizes))
    placed: list[tuple[int, int]] = []
    for group in sorted(order, key=lambda g: -sizes[g]) if rule == "longest_first" else order:
        replica = min(range(len(left)), key=lambda r: (left[r], r))
        left[replica] += sizes[group]
        placed.append((group, replica))
    return placed


def group_tokens(prompt_lengths: Sequence[int], limits: Sequence[int], *, share_prefill: bool) -> float:
    """Return how many tokens a group's rows may need: their prompts', one where it is shared, and those they may say.

    What rows *will* say nobody knows; lengths that stand for it in a replayed trial are not for the router to see.
    """
    return sum(limits) + (prompt_lengths[0] if share_prefill else sum(prompt_lengths))
