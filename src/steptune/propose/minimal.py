"""Finds the smallest part of a winning change that is forecast to be as fast, so that what is handed back is small.

It chooses among the candidates already ranked, which can all run. Taking moves away one at a time would get
stuck: a schedule and the thread split that it needs can only go together.
"""

from collections.abc import Sequence

from steptune.core.change import Change
from steptune.core.knob import EFFECT_ORDER
from steptune.propose.ranked import RankedChange


def minimal_change(winner: int, ranked: Sequence[RankedChange], noise: float) -> int:
    """Return the index of the slimmest candidate made of the winner's own moves and within ``noise`` of its ratio.

    Slimmest is: owes the lightest proof, then has the fewest moves, then is fastest. ``noise`` is the relative
    difference in step time that counts as nothing, measured against the winner, so small losses do not add up.
    """
    moves = _moved(ranked[winner].change)
    slowest = ranked[winner].mid * (1 + noise)
    enough = [i for i, r in enumerate(ranked) if r.mid <= slowest and _moved(r.change) <= moves]
    return min([winner, *enough], key=lambda i: (*_burden(ranked[i].change), ranked[i].mid, i))


def _moved(change: Change) -> frozenset[tuple[str, str]]:
    # by text, because True and 1 are different settings but equal values
    return frozenset((move.knob, repr(move.new)) for move in change.moves)


def _burden(change: Change) -> tuple[int, int]:
    return EFFECT_ORDER.index(change.effect), len(change.moves)
