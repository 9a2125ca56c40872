"""After the search: each lever's share is measured, and levers that show no gain of their own are taken out again.

A combination wins as a whole, so a lever that does nothing can ride along. The slimmer change is not believed: it
is tried like any other, against the baseline, and `search_state` prefers it only where it is as fast within the noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from steptune.core.change import Change, Move
from steptune.core.errors import BudgetSpentError
from steptune.core.event import Waterfall
from steptune.decide.gain import Gain, interval_of, judge_gain
from steptune.propose.make import make_change
from steptune.trial.arm_died import ArmDiedError
from steptune.tune.blame import moves_of
from steptune.tune.context import Context
from steptune.tune.search import try_one
from steptune.tune.search_state import SearchState, band_frac, search_state
from steptune.tune.space import Space
from steptune.tune.waterfall import measure_waterfall, waterfall_stages

MIN_VISIBLE_GAIN = 0.03
"""Gain of a lever that is kept even where a waterfall's few rounds cannot prove it. Lower, and a lever that three
rounds read as 0.88 (0.67 to 1.15) is dropped; the example then lost a third of its gain (2026-11-30)."""


def prune(context: Context, space: Space, found: SearchState, reserve_s: float) -> SearchState:
    """Measure the winner's waterfall and try it without its idle levers; return the search as it then stands.

    ``reserve_s`` wall seconds stay for what comes after.
    """
    assert found.incumbent is not None, "only a winner is pruned"
    winner = found.incumbent.trial.change
    measured = measured_waterfall(context, found)
    if measured is None:
        try:
            measure_waterfall(context, space, winner)
        except (BudgetSpentError, ArmDiedError) as error:
            context.progress.say(f"waterfall: not measured, so nothing is pruned: {error}")
            return found
        measured = measured_waterfall(context, found)
    assert measured is not None, "it was just measured"
    waterfall, whole = measured
    band = band_frac(context.state)
    index = _slimmest(context, space, winner, idle_moves(waterfall, waterfall_stages(context, space, whole), band))
    if index is None or not found.is_open(space.proposal.changes[index]):
        return found
    change = space.proposal.changes[index]
    dropped = ", ".join(str(move) for move in winner.moves if move not in change.moves)
    if context.budget.trials_left() == 0 or context.budget.wall_left_s() < reserve_s:
        context.progress.say(f"prune: no gain of its own: {dropped}; kept, because the budget for trials is spent")
        return found
    context.progress.say(f"prune: no gain of its own: {dropped}; trying without")
    try_one(context, space, index, replace(found, incumbent=None))
    return search_state(context.state, context.effects)


def measured_waterfall(context: Context, found: SearchState) -> tuple[Waterfall, Change] | None:
    """Return the latest waterfall that holds every move of the incumbent and none that is banned, with its change."""
    assert found.incumbent is not None, "only a winner has a waterfall"
    changes = {event.trial.change.signature: event.trial.change for event in context.state.ended}
    for waterfall in reversed(context.state.waterfalls):
        whole = changes.get(waterfall.rows[-1].signature)
        if whole is None or moves_of(whole) & found.banned:
            continue
        if moves_of(found.incumbent.trial.change) <= moves_of(whole):
            return waterfall, whole
    return None


def idle_moves(waterfall: Waterfall, stages: Sequence[Change], band: float) -> list[tuple[Move, ...]]:
    """Return the groups of moves whose rows of the waterfall show no gain above the noise band, most useless first.

    A row with a gain that few rounds could not prove is not idle: the winner was proven as a whole.

    Nor may they together: a group is left out of the list where the product of the ratios, with the intervals
    added in quadrature on the log scale, would lie wholly below the band.
    """
    ratios = {row.signature: row.ratio_to_previous for row in waterfall.rows}
    idle: list[tuple[float, float, tuple[Move, ...]]] = []
    for before, stage in pairwise(stages):
        ratio = ratios.get(stage.signature)
        interval = None if ratio is None else interval_of(ratio)
        if interval is None:
            continue
        value, low, high = interval
        is_unproven = judge_gain(value=value, low=low, high=high, worth_frac=band) is not Gain.FASTER
        if is_unproven and value > 1 - max(band, MIN_VISIBLE_GAIN):
            moves = tuple(move for move in stage.moves if move not in before.moves)
            idle.append((math.log(value), math.log(high / value), moves))
    dropped: list[tuple[Move, ...]] = []
    gain, spread = 0.0, 0.0
    for log_ratio, upper, moves in sorted(idle, key=lambda group: -group[0]):
        if gain + log_ratio + math.hypot(spread, upper) >= math.log1p(-band):
            gain, spread = gain + log_ratio, math.hypot(spread, upper)
            dropped.append(moves)
    return dropped


def _slimmest(context: Context, space: Space, winner: Change, idle: Sequence[tuple[Move, ...]]) -> int | None:
    """Return the index of the winner without as many idle groups as can be left out; None if it stays as it is."""
    by_name = {spec.name: spec for spec in context.specs}
    indices: Mapping[str, int] = {change.signature: i for i, change in enumerate(space.proposal.changes)}
    kept, index = winner.moves, None
    for group in idle:
        slimmer = tuple(move for move in kept if move not in group)
        found = indices.get(make_change(slimmer, by_name, ()).signature)
        if found is not None and len(slimmer) < len(kept):
            kept, index = slimmer, found
    return index
