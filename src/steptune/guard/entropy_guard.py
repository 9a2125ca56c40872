"""Entropy: does the policy collapse, or its gradient run wild, where the baseline's does not?

Both are early signs: entropy 0.001 came with exploding answers [V15], unstable gradient norms foretold collapse
under staleness (arXiv 2602.17616). Held against the baseline's own steps, because the healthy level is the task's.
"""

import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.stats.finite import finite_or_none

NAME = "entropy"
"""Name in verdicts."""

MIN_ENTROPY_RATIO = 0.5
"""Smallest healthy candidate / baseline entropy: a few steps from equal weights move it by per cents."""

MAX_GRAD_NORM_RATIO = 3.0
"""Largest healthy candidate / baseline gradient norm, and its inverse the smallest: steps of one run differ by less."""


def check_entropy(candidate: Sequence[Observation], baseline: Sequence[Observation]) -> Verdict:
    """Judge median entropy (nats per token) and median gradient norm of two arms that started from equal weights."""
    limit = (
        f"median entropy at least {MIN_ENTROPY_RATIO} of the baseline's, "
        f"gradient norm within a factor {MAX_GRAD_NORM_RATIO:g}"
    )
    entropy_ratio = _ratio_of_medians([o.entropy for o in candidate], [o.entropy for o in baseline])
    norm_ratio = _norm_ratio([o.grad_norm for o in candidate], [o.grad_norm for o in baseline])
    known = None if entropy_ratio is None else Estimate(value=entropy_ratio, unit="x", source=Source.DERIVED)
    return combined(NAME, [_entropy(entropy_ratio), _grad_norm(norm_ratio)], limit=limit, measured=known)


def _entropy(ratio: float | None) -> Finding:
    if ratio is None:
        return unknown(f"need entropy above zero in {MIN_STEPS} steps of both arms")
    return held(ratio >= MIN_ENTROPY_RATIO, f"median entropy {ratio:.3g} times the baseline's")


def _grad_norm(ratio: float | None) -> Finding:
    if ratio is None:
        return unknown(f"need gradient norms above zero in {MIN_STEPS} steps of both arms")
    is_near = 1 / MAX_GRAD_NORM_RATIO <= ratio <= MAX_GRAD_NORM_RATIO
    return held(is_near, f"median gradient norm {ratio:.3g} times the baseline's")


def _norm_ratio(candidate: Sequence[float | None], baseline: Sequence[float | None]) -> float | None:
    """Return the ratio of medians; where most of the baseline's own steps have no gradient, of the steps that have one.

    Few and small groups are often all equal, and their batches teach nothing under either configuration.
    """
    ours, theirs = finite_or_none(candidate), finite_or_none(baseline)
    if ours is None or theirs is None or not theirs or statistics.median(theirs) > 0:
        return _ratio_of_medians(candidate, baseline)
    return _ratio_of_medians([norm for norm in ours if norm > 0], [norm for norm in theirs if norm > 0])


def _ratio_of_medians(candidate: Sequence[float | None], baseline: Sequence[float | None]) -> float | None:
    """Candidate / baseline, or None if a value is missing or broken, steps are few, or the baseline is not above 0."""
    ours, theirs = finite_or_none(candidate), finite_or_none(baseline)
    if ours is None or theirs is None or min(len(ours), len(theirs)) < MIN_STEPS:
        return None
    centre = statistics.median(theirs)
    return statistics.median(ours) / centre if centre > 0 else None
