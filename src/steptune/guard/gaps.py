"""Whether measured log-prob gaps can be believed at all, before anything is read off them.

Metrics lie: summed ratios, missing tokens, NaN after masking (needs study, need 4). A gap that is not finite
or breaks its own mathematics (k3 below zero, mean exp|Δ| below one) is a problem, not a small number.
"""

from collections.abc import Iterable, Sequence

from steptune.core.profile import GapStats
from steptune.core.trial import Observation
from steptune.stats.finite import finite_or_none
from steptune.stats.trend import MIN_POINTS

MIN_STEPS = MIN_POINTS
"""Fewest steps a per-step guard judges: with fewer, no growth could be significant."""

ROUNDING = 1e-6
"""How far rounding in float32 sums may push a bounded metric past its bound."""


def gap_problem(gap: GapStats) -> str | None:
    """Return why ``gap`` cannot be used, or None."""
    if finite_or_none((gap.k1, gap.k3, gap.mean_abs, gap.max_abs, gap.mult_prob_error, gap.ess_frac)) is None:
        return "is not finite"
    if gap.num_tokens < 1:
        return "covers no tokens"
    impossible = gap.k3 < -ROUNDING or gap.mult_prob_error < 1 - ROUNDING or not 0 < gap.ess_frac <= 1 + ROUNDING
    return "is impossible (k3 below 0, exp|Δ| below 1 or ESS outside 0..1)" if impossible else None


def first_problem(gaps: Iterable[GapStats]) -> str | None:
    """Return the first problem among ``gaps``, or None."""
    return next((problem for gap in gaps if (problem := gap_problem(gap)) is not None), None)


def mean_weight(gap: GapStats) -> float:
    """Return mean exp(Δ), which the record implies: k3 = mean(exp Δ) - 1 + k1."""
    return gap.k3 + 1.0 - gap.k1


def mismatch_of(observations: Sequence[Observation]) -> tuple[GapStats, ...] | str:
    """Return the same-weights gap of every step, or why there is none to judge.

    A stream's rollout does not hold every version of the weights, so its steps (those with a `queue`) may lack the gap.
    """
    gaps = tuple(observation.mismatch for observation in observations if observation.mismatch is not None)
    num_owed = sum(1 for observation in observations if observation.queue is None and observation.mismatch is None)
    if num_owed:
        return f"the gap is missing in {num_owed} of {len(observations)} steps"
    if len(gaps) < MIN_STEPS:
        return f"need {MIN_STEPS} steps, got {len(gaps)}"
    problem = first_problem(gaps)
    return gaps if problem is None else f"the gap of a step {problem}"
