"""Which change to try next, and when there is nothing left to try.

::

    nothing tried yet          the best forecast: the largest single step, and what residuals learn most from
    somebody's gain is sure    the largest gain at the slow end of its interval, per cost of finding out
    nobody's gain is sure      the largest expected improvement, per cost of finding out
    stop                       no interval's fast end beats the noise, or no trial pays within `HORIZON_STEPS`

So a well-understood small gain goes before a hopeful large one, hopes are tried only while they are worth their price,
and a forecast that keeps its word (whose intervals the residuals then narrow) ends the search sooner than one that does
not. What may run out of memory counts by its chance to fit.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist

from steptune.core.change import Change
from steptune.core.knob import Effect, KnobValue
from steptune.propose.ranked import RankedChange

HORIZON_STEPS = 10_000
"""Baseline steps within which a trial must be expected to pay for itself: what is found is kept for some ten runs of a
thousand steps. A job does not say how long it will run; the decision prints after how many steps the session has paid.
With 1,000 a search stopped at 0.89 and 0.82 of the gain (means of two spaces of `bench/search.py`, 8 seeds) instead of
0.94 and 0.92, and at 57 instead of 120 steps."""

STANDARD = NormalDist()


def next_change(
    ranked: Sequence[RankedChange],
    tried: Collection[str],
    banned_moves: Collection[tuple[str, KnobValue]],
    incumbent_ratio: float,
    noise: float,
) -> int | None:
    """Return the index of the change to try next, or None when nothing left is worth a trial.

    Args:
        ranked: candidates that fit, with their forecasts, in any order.
        tried: signatures of changes that have a result.
        banned_moves: knob and new value of moves that a guard has found guilty.
        incumbent_ratio: step time of the best configuration so far / the baseline's; 1 at the start.
        noise: smallest relative difference that a trial can tell from nothing.
    """
    wanted = incumbent_ratio * (1 - noise)
    open_indices = [
        index
        for index, candidate in enumerate(ranked)
        if candidate.low < wanted
        and candidate.change.signature not in tried
        and not any((move.knob, move.new) in banned_moves for move in candidate.change.moves)
    ]
    worth = {i: improvement(ranked[i], wanted) for i in open_indices}
    open_indices = [i for i in open_indices if worth[i] * incumbent_ratio * HORIZON_STEPS > ranked[i].cost_steps]
    if not open_indices:
        return None
    best = max(open_indices, key=lambda i: (_expected_gain(ranked[i], incumbent_ratio), *_thrift(ranked[i]), -i))
    if not tried and ranked[best].mid < wanted:
        return best
    sure = [i for i in open_indices if ranked[i].high < incumbent_ratio]
    if sure:
        return max(sure, key=lambda i: (_sure_gain(ranked[i], incumbent_ratio), *_thrift(ranked[i]), -i))
    return max(open_indices, key=lambda i: (worth[i] / ranked[i].cost_steps, *_thrift(ranked[i]), -i))


def improvement(candidate: RankedChange, wanted: float) -> float:
    """Return the expected improvement of the log ratio over ``wanted``, by the chance that the candidate fits.

    ``E[max(0, ln wanted - x)]`` for a normal x: Jones, Schonlau and Welch 1998, equation 15.
    """
    ahead, sd = math.log(wanted / candidate.mid), candidate.log_sd
    if not sd > 0:
        return max(0.0, ahead) * candidate.fit_chance
    z = ahead / sd
    return candidate.fit_chance * (ahead * STANDARD.cdf(z) + sd * STANDARD.pdf(z))


def guilty_moves(
    change: Change, effects: Mapping[str, Effect], blamed: Collection[Effect]
) -> frozenset[tuple[str, KnobValue]]:
    """Return the moves of a rejected change whose knobs touch what a guard blamed.

    A failed mismatch guard blames PRECISION; an off-policyness guard blames STALENESS; a reward test may blame both.
    """
    return frozenset((move.knob, move.new) for move in change.moves if effects[move.knob] in blamed)


def _expected_gain(candidate: RankedChange, incumbent_ratio: float) -> float:
    return math.log(incumbent_ratio / candidate.mid) * candidate.fit_chance


def _sure_gain(candidate: RankedChange, incumbent_ratio: float) -> float:
    """Return the gain at the slow end per cost."""
    return math.log(incumbent_ratio / candidate.high) * candidate.fit_chance / candidate.cost_steps


def _thrift(candidate: RankedChange) -> tuple[float, int]:
    """Break ties: cheaper to find out, then fewer moves."""
    return (-candidate.cost_steps, -len(candidate.change.moves))
