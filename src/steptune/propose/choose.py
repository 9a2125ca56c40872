"""Which change to try next.

The first trial is the best forecast overall: it is the largest single step towards the answer, and the
residuals learn most from it. After that, what counts is the gain a candidate is *sure* of (the slow end of its
interval against the incumbent) per cost of finding out, so a well-understood small gain goes before a hopeful
large one. When nothing is forecast to beat the incumbent by more than the noise, there is nothing left to try.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from steptune.core.change import Change
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.propose.ranked import RankedChange

TRIAL_COST = {Restart.HOT: 1.0, Restart.RELAUNCH: 1.25, Restart.REALLOCATE: 1.5}
"""Cost of a trial relative to one that needs no restart (start-up and warm-up). Prior, to be replaced by bench."""


def next_change(
    ranked: Sequence[RankedChange],
    tried: Collection[str],
    banned_moves: Collection[tuple[str, KnobValue]],
    incumbent_ratio: float,
    noise: float,
) -> int | None:
    """Return the index of the change to try next, or None when nothing left can beat the noise.

    Args:
        ranked: candidates that fit, with their forecasts, in any order.
        tried: signatures of changes that have a result.
        banned_moves: knob and new value of moves that a guard has found guilty.
        incumbent_ratio: step time of the best configuration so far / the baseline's; 1 at the start.
        noise: smallest relative difference that a trial can tell from nothing.
    """
    open_indices = [
        index
        for index, candidate in enumerate(ranked)
        if candidate.mid < incumbent_ratio * (1 - noise)
        and candidate.change.signature not in tried
        and not any((move.knob, move.new) in banned_moves for move in candidate.change.moves)
    ]
    if not open_indices:
        return None
    worth = _sure_gain if tried else _expected_gain
    return max(open_indices, key=lambda i: (worth(ranked[i], incumbent_ratio), *_thrift(ranked[i]), -i))


def guilty_moves(
    change: Change, effects: Mapping[str, Effect], blamed: Collection[Effect]
) -> frozenset[tuple[str, KnobValue]]:
    """Return the moves of a rejected change whose knobs touch what a guard blamed.

    A failed mismatch guard blames PRECISION; an off-policyness guard blames STALENESS; a reward test may blame both.
    """
    return frozenset((move.knob, move.new) for move in change.moves if effects[move.knob] in blamed)


def _expected_gain(candidate: RankedChange, incumbent_ratio: float) -> float:
    return math.log(incumbent_ratio / candidate.mid)


def _sure_gain(candidate: RankedChange, incumbent_ratio: float) -> float:
    """Return the gain at the slow end per cost; a loss is multiplied by its cost, so dear losses rank last."""
    gain = math.log(incumbent_ratio / candidate.high)
    cost = TRIAL_COST[candidate.change.restart]
    return gain / cost if gain > 0 else gain * cost


def _thrift(candidate: RankedChange) -> tuple[float, int]:
    """Break ties: cheaper to turn, then fewer moves."""
    return (-TRIAL_COST[candidate.change.restart], -len(candidate.change.moves))
