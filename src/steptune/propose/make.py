"""Makes a Change of moves: what it may touch, what it costs to turn, and which bottlenecks it answers."""

from collections.abc import Mapping, Sequence

from steptune.core.bottleneck import Bottleneck
from steptune.core.change import Change, Move
from steptune.core.knob import KnobSpec, Restart, heaviest

RESTART_ORDER = (Restart.HOT, Restart.RELAUNCH, Restart.REALLOCATE)
"""Cheapest to costliest."""


def make_change(moves: Sequence[Move], specs: Mapping[str, KnobSpec], bottlenecks: Sequence[Bottleneck]) -> Change:
    """Return the change that these moves make. ``specs`` holds every moved knob by name."""
    moved = {move.knob for move in moves}
    return Change(
        moves=tuple(sorted(moves, key=lambda move: move.knob)),
        effect=heaviest(tuple(specs[knob].effect for knob in moved)),
        restart=max((specs[knob].restart for knob in moved), key=RESTART_ORDER.index, default=Restart.HOT),
        why=tuple(b.kind.value for b in bottlenecks if not moved.isdisjoint(b.levers)),
    )
