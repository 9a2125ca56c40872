"""Off-policyness: how old the trained tokens' weights were, and what that age did to the log-probs.

The age is *observed* (`lag_max` of every step), never read off the configuration: utilisation and queues move
it with no knob touched. Updates inside one rollout batch are the algorithm's own lag and are not counted
against the owner.
"""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.gates import MAX_ABS_K1, MEAN_WEIGHT_RANGE, MIN_ESS_FRAC
from steptune.core.profile import GapStats, LagStats
from steptune.core.trial import Observation
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS, first_problem, mean_weight
from steptune.guard.judge import Finding, combined, held, unknown

NAME = "off_policy"
"""Name in verdicts."""


def check_off_policy(
    candidate: Sequence[Observation],
    baseline: Sequence[Observation] = (),
    *,
    max_staleness: int,
    own_lag: int,
    has_correction: bool,
    allow_corrections: bool,
) -> Verdict:
    """Judge the age of the candidate's samples and the gap at each lag.

    Args:
        candidate: kept steps in order.
        baseline: steps of the job's baseline. Where it is stale itself, a gap inside its own range is not the
            candidate's fault: INCONCLUSIVE, the baseline is unhealthy.
        max_staleness: the owner's limit, in updates beyond ``own_lag``.
        own_lag: largest lag the algorithm has without staleness: updates per rollout batch - 1.
        has_correction: the candidate weighs stale tokens against the log-probs of the weights that sampled them.
        allow_corrections: the owner allows that, or the job's own algorithm already does it.
    """
    limit = (
        f"lag at most {max_staleness} + {own_lag} updates, corrected where above {own_lag}; |k1| at most {MAX_ABS_K1} "
        f"nat, ESS at least {MIN_ESS_FRAC}, mean weight {MEAN_WEIGHT_RANGE[0]} to {MEAN_WEIGHT_RANGE[1]}"
    )
    if len(candidate) < MIN_STEPS:
        return combined(NAME, [unknown(f"need {MIN_STEPS} steps, got {len(candidate)}")], limit=limit)
    oldest = max(observation.lag_max for observation in candidate)
    findings = [held(oldest - own_lag <= max_staleness, f"oldest token {oldest} updates behind")]
    if oldest > own_lag:
        findings.append(_correction(has_correction, allow_corrections))
    findings.append(_gaps(candidate, baseline, own_lag))
    measured = Estimate(value=oldest, unit="updates", source=Source.MEASURED, n=len(candidate), note="largest lag")
    return combined(NAME, findings, limit=limit, measured=measured)


def _correction(has_correction: bool, allow_corrections: bool) -> Finding:
    if not has_correction:
        return held(False, "stale tokens are trained without a correction")
    return held(allow_corrections, "stale tokens are corrected, and the owner's `allow_corrections` decides that")


def _gaps(candidate: Sequence[Observation], baseline: Sequence[Observation], own_lag: int) -> Finding:
    """Judge what staleness did; how far a batch's own updates move the policy is the algorithm's affair."""
    problem = _missing(candidate)
    if problem is not None:
        return unknown(problem)
    lags, theirs = _stale(candidate, own_lag), _stale(baseline, own_lag)
    sick = [(lag, text) for lag in lags if (text := _sickness(lag)) is not None]
    if not sick:
        return held(True, f"{len(lags)} gaps by lag are healthy")
    text = f"{len(sick)} of {len(lags)} gaps are unhealthy, first: {sick[0][1]}"
    if theirs and all(_is_within(lag.gap, [each.gap for each in theirs]) for lag, _ in sick):
        return unknown(f"the baseline itself is over the bounds: {text}")
    return held(False, text)


def _stale(steps: Sequence[Observation], own_lag: int) -> list[LagStats]:
    return [lag for step in steps for lag in step.off_policy if lag.lag > own_lag]


def _is_within(gap: GapStats, theirs: Sequence[GapStats]) -> bool:
    """Return whether a gap lies inside the range of others; NaN lies in none."""
    weights = [mean_weight(other) for other in theirs]
    return (
        abs(gap.k1) <= max(abs(other.k1) for other in theirs)
        and gap.ess_frac >= min(other.ess_frac for other in theirs)
        and min(weights) <= mean_weight(gap) <= max(weights)
    )


def _missing(candidate: Sequence[Observation]) -> str | None:
    """Why the gaps by lag cannot be judged, or None. A step with lag 0 needs no gap."""
    for observation in candidate:
        measured = {lag.lag for lag in observation.off_policy}
        if observation.lag_max < 0 or any(not 0 <= lag <= observation.lag_max for lag in measured):
            return f"step {observation.step} reports impossible lags {sorted(measured)}, oldest {observation.lag_max}"
        if observation.lag_max > 0 and observation.lag_max not in measured:
            return f"step {observation.step} has no gap at its oldest lag {observation.lag_max}"
        problem = first_problem(lag.gap for lag in observation.off_policy)
        if problem is not None:
            return f"a gap of step {observation.step} {problem}"
    return None


def _sickness(lag: LagStats) -> str | None:
    gap, (lightest, heaviest) = lag.gap, MEAN_WEIGHT_RANGE
    if abs(gap.k1) > MAX_ABS_K1:
        return f"k1 {gap.k1:.3g} at lag {lag.lag}"
    if gap.ess_frac < MIN_ESS_FRAC:
        return f"ESS {gap.ess_frac:.3g} at lag {lag.lag}"
    if not lightest <= mean_weight(gap) <= heaviest:
        return f"mean weight {mean_weight(gap):.3g} at lag {lag.lag}"
    return None
