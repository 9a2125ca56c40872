"""Same work: two step times may be compared only if both steps did the same amount.

Public "+44 %" gains were +16 % once group size and batch were held equal [V37]. Declared work must be equal and
*known*; realised work is compared in arms with forced lengths, where it must agree to a rounding of the count.
"""

import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.profile import WorkSignature
from steptune.core.trial import Observation
from steptune.core.verdict import Verdict
from steptune.guard.judge import Finding, combined, held, unknown

NAME = "same_work"
"""Name in verdicts."""

REALISED_REL_TOL = 1e-3
"""Allowed relative difference of tokens and rollouts per step in arms with forced lengths."""


def check_same_work(
    *,
    candidate_work: WorkSignature,
    baseline_work: WorkSignature,
    candidate: Sequence[Observation],
    baseline: Sequence[Observation],
) -> Verdict:
    """Judge declared work, and the realised work of two arms run with the same forced lengths."""
    limit = f"equal declared work, realised tokens and rollouts per step within {REALISED_REL_TOL:.1%}"
    declared = _declared(candidate_work, baseline_work)
    if not candidate or not baseline:
        return combined(NAME, [declared, unknown("an arm has no steps")], limit=limit)
    ours, theirs = _tokens_per_step(candidate), _tokens_per_step(baseline)
    findings = [
        declared,
        _realised("tokens", ours, theirs),
        _realised("rollouts", _rollouts_per_step(candidate), _rollouts_per_step(baseline)),
    ]
    measured = Estimate(value=ours, unit="tokens", source=Source.MEASURED, n=len(candidate), note="per step")
    return combined(NAME, findings, limit=limit, measured=measured)


def _tokens_per_step(arm: Sequence[Observation]) -> float:
    return statistics.fmean(step.prompt_tokens + step.completion_tokens for step in arm)


def _rollouts_per_step(arm: Sequence[Observation]) -> float:
    return statistics.fmean(step.num_rollouts for step in arm)


def _declared(candidate: WorkSignature, baseline: WorkSignature) -> Finding:
    ours, theirs = candidate.model_dump(), baseline.model_dump()
    missing = [name for name in ours if ours[name] is None or theirs[name] is None]
    differing = [f"{n} {theirs[n]} -> {ours[n]}" for n in ours if n not in missing and ours[n] != theirs[n]]
    if differing:
        return held(False, f"declared work differs: {', '.join(differing)}")
    if missing:
        return unknown(f"declared work is not known: {', '.join(missing)}")
    return held(True, "declared work is equal")


def _realised(what: str, ours: float, theirs: float) -> Finding:
    text = f"{what} per step {ours:.6g} against {theirs:.6g}"
    if min(ours, theirs) <= 0:
        return unknown(text)
    return held(abs(ours - theirs) <= REALISED_REL_TOL * theirs, text)
