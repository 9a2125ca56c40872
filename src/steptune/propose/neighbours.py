"""The changes around one: what a list that had to be cut leaves out where it matters.

Two levers that only pay together (a re-split and the schedule that needs it) are two steps apart, so neighbours differ
in up to two knobs. With 12 knobs of three values that is about 300.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from steptune.core.change import Change, Move
from steptune.propose.space import Axis


def neighbours(change: Change, movable: Sequence[Axis]) -> Iterator[tuple[Move, ...]]:
    """Yield the moves of every change that differs from ``change`` in one knob or in two; the baseline is left out."""
    now = {move.knob: move for move in change.moves}
    for num_knobs in (1, 2):
        for chosen in combinations(movable, num_knobs):
            for moves in product(*(_others(axis, now.get(axis.spec.name)) for axis in chosen)):
                turned = {axis.spec.name: move for axis, move in zip(chosen, moves, strict=True)}
                made = tuple(move for move in {**now, **turned}.values() if move is not None)
                if made:
                    yield made


def _others(axis: Axis, now: Move | None) -> list[Move | None]:
    """Return every move of a knob but the one that is made; None leaves it where the baseline has it."""
    return [move for move in (None, *axis.moves) if move != now]
