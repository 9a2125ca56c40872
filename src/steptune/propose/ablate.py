"""What to try where no forecast exists: one lever after the other, those that treat the largest bottlenecks first.

A lever is what can be turned by itself on top of the incumbent. Moves that only run together (a schedule and the
correction it needs) are one lever: two moves are tried together only where neither runs alone.
"""

from collections.abc import Callable, Sequence

from steptune.core.change import Change, Move
from steptune.propose.ranked import NO_CHANGE


def next_ablation(
    changes: Sequence[Change],
    is_open: Callable[[int], bool],
    incumbent: Change = NO_CHANGE.change,
    relevance: Callable[[str], float] = lambda knob: 0.0,
) -> int | None:
    """Return the index of the open change that adds the most relevant lever to the incumbent; None if there is none.

    Args:
        changes: every change that can run, tried ones included.
        is_open: whether the change at an index may be tried.
        incumbent: best change so far.
        relevance: of a knob: summed shares of the bottlenecks that it treats.
    """
    added = {i: extra for i, change in enumerate(changes) if (extra := _added(change, incumbent)) is not None}
    alone = {_key(extra[0]) for extra in added.values() if len(extra) == 1}
    levers = [
        i
        for i, extra in added.items()
        if is_open(i) and (len(extra) == 1 or (len(extra) == 2 and not any(_key(move) in alone for move in extra)))
    ]
    return max(levers, key=lambda i: (max(relevance(m.knob) for m in added[i]), -len(added[i]), -i), default=None)


def _added(change: Change, incumbent: Change) -> tuple[Move, ...] | None:
    """Return the moves beyond the incumbent's, one or more; None where one of the incumbent's is missing."""
    kept = {_key(move) for move in incumbent.moves}
    extra = tuple(move for move in change.moves if _key(move) not in kept)
    return extra if extra and len(extra) + len(kept) == len(change.moves) else None


def _key(move: Move) -> tuple[str, str]:
    # by text, because True and 1 are different settings but equal values
    return move.knob, repr(move.new)
