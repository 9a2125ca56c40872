"""Mismatch: rollout against trainer at the *same* weights. Level, tail, trend and routing are tests of their own.

Each was fooled by another in public runs (needs study, need 4): fp8 started fine and grew 45 % per 8 steps
[V29], one token at 464 hid behind a flat KL [N19]. The surprise: a bound alone is no proof of a fault. Where the job's
own A/A repeat breaks a bound too, a candidate inside the repeat's range is not FAILED: the baseline is unhealthy, and
that is what is said. It does not pass either.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.gates import MIN_ESS_FRAC
from steptune.core.profile import GapStats
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.gaps import mismatch_of
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.guard.launches import by_launch
from steptune.stats.finite import finite_or_none
from steptune.stats.trend import MIN_POINTS, theil_sen_slope, trend

NAME = "mismatch"
"""Name in verdicts."""

MAX_MULT_PROB_ERROR = 1.05
"""Mean exp|Δ| above which NeMo RL says "investigate" (docs/guides/grpo.md)."""

MULT_PROB_ERROR_RISE = 0.02
"""Room above the baseline's own mean exp|Δ| where that is already high: NeMo RL's "1-2 %" drift (same page)."""

GROWTH_STEPS = 8
"""Steps over which growth is stated, as in the fp8 report [V29]."""

MAX_GROWTH_FRAC = 0.25
"""Largest growth of k3 in 8 steps beyond the baseline's: between bf16's +12 % (trained well) and fp8's +45 % [V29]."""

MAX_TOKEN_RATIO = 5.0
"""Ratio of a token's two probabilities from which it is left out of the loss (IcePop's upper bound,
https://arxiv.org/abs/2510.18855); the worst token of a step may be no further off."""

MAX_TAIL_FACTOR = 2.0
"""Worst token in units of the A/A repeat's worst, in nats: where the repeat's own is already above the ratio, twice."""

ROUTER_ROOM_FRAC = 0.01
"""Room below the A/A repeat's lowest router agreement: a step of the example routes thousands of tokens, so its
binomial error is below 0.5 %."""

SAME_MATHS_FACTOR = 3.0
"""Median k3 of a change labelled *none* in units of the largest step of the A/A repeat. Other shapes round differently:
the medians of bf16 trials lay at 0.3 to 1.5 of it (sessions of the examples, 2026-11-30)."""

SAME_MATHS_FRAC = 0.01
"""Part of the owner's limit below which the same is not asked: float32 moves between 1e-14 and 1e-11."""

MIN_GROWTH_LEVEL_FRAC = 0.01
"""Growth counts from this part of the limit up: rounding noise that doubles is still rounding noise."""

FLOOR_FRAC = 1e-3
"""Part of the median that a k3 of 0 or less counts as."""

MAX_CHANCE = 0.005
"""One-sided p value above which a rise is chance: eight trials a session then raise a false alarm in 4 %."""


def check_mismatch(
    candidate: Sequence[Observation],
    baseline: Sequence[Observation],
    *,
    max_mismatch_k3: float,
    is_same_maths: bool = False,
) -> Verdict:
    """Judge the same-weights gap of the candidate's steps.

    Args:
        candidate: kept steps in order.
        baseline: steps of the job's *baseline*, both arms of its A/A repeat: their range is the floor. The incumbent's
            would let the gap creep up trial by trial.
        max_mismatch_k3: the owner's limit, in nats per token.
        is_same_maths: the change is labelled *none*, so its level has no reason to leave the baseline's range, however
            far away the owner's limit is.
    """
    limit = (
        f"median k3 at most {max_mismatch_k3:g} nat, mean exp|Δ| at most {MAX_MULT_PROB_ERROR} or baseline "
        f"+ {MULT_PROB_ERROR_RISE}, ESS at least {MIN_ESS_FRAC}, no token beyond a factor {MAX_TOKEN_RATIO:g}, no "
        f"growth above {MAX_GROWTH_FRAC:.0%} in {GROWTH_STEPS} steps, each against the A/A repeat's own"
    )
    candidate_gaps, baseline_gaps = mismatch_of(candidate), mismatch_of(baseline)
    if isinstance(candidate_gaps, str):
        return combined(NAME, [unknown(f"candidate: {candidate_gaps}")], limit=limit)
    if isinstance(baseline_gaps, str):
        return combined(NAME, [unknown(f"baseline: {baseline_gaps}")], limit=limit)
    findings = [
        _level(candidate_gaps, baseline_gaps, max_mismatch_k3, is_same_maths=is_same_maths),
        _mult_prob_error(candidate_gaps, baseline_gaps),
        _sample_size(candidate_gaps, baseline_gaps),
        _worst_token(candidate_gaps, baseline_gaps),
        _growth(_k3_by_launch(candidate), _k3_by_launch(baseline), max_mismatch_k3),
        *_routing(candidate, baseline),
    ]
    return combined(NAME, findings, limit=limit, measured=_measured(candidate_gaps))


def _k3s(gaps: Sequence[GapStats]) -> list[float]:
    return [gap.k3 for gap in gaps]


def _measured(gaps: Sequence[GapStats]) -> Estimate:
    k3s = _k3s(gaps)
    return Estimate(
        value=statistics.median(k3s),
        low=min(k3s),
        high=max(k3s),
        unit="nat",
        source=Source.MEASURED,
        n=len(k3s),
        note="median k3 per token; the interval is the range over steps",
    )


def _level(
    candidate: Sequence[GapStats], baseline: Sequence[GapStats], max_k3: float, *, is_same_maths: bool
) -> Finding:
    level, base, floor = statistics.median(_k3s(candidate)), statistics.median(_k3s(baseline)), max(_k3s(baseline))
    text = f"median k3 {level:.2g} over {len(candidate)} steps (baseline {base:.2g}, its A/A repeat up to {floor:.2g})"
    rounding = max(SAME_MATHS_FACTOR * floor, SAME_MATHS_FRAC * max_k3)
    if is_same_maths and rounding < level <= max_k3:
        return held(False, f"labelled none, but not the same mathematics up to rounding: {text}")
    if base <= max_k3:
        return held(level <= max_k3, text)
    is_worse = level > max(floor, max_k3)
    judgement = Judgement.FAIL if is_worse else Judgement.INCONCLUSIVE
    return Finding(judgement=judgement, because=f"the baseline itself is over the limit: {text}")


def _mult_prob_error(candidate: Sequence[GapStats], baseline: Sequence[GapStats]) -> Finding:
    level, base = (statistics.fmean(gap.mult_prob_error for gap in gaps) for gaps in (candidate, baseline))
    allowed = max(MAX_MULT_PROB_ERROR, base + MULT_PROB_ERROR_RISE)
    return held(level <= allowed, f"mean exp|Δ| {level:.4g} (baseline {base:.4g})")


def _sample_size(candidate: Sequence[GapStats], baseline: Sequence[GapStats]) -> Finding:
    smallest, base = (min(gap.ess_frac for gap in gaps) for gaps in (candidate, baseline))
    text = f"smallest ESS {smallest:.3g} (baseline {base:.3g})"
    if smallest < MIN_ESS_FRAC and base <= smallest:
        return unknown(f"the baseline itself is below the limit: {text}")
    return held(smallest >= MIN_ESS_FRAC, text)


def _worst_token(candidate: Sequence[GapStats], baseline: Sequence[GapStats]) -> Finding:
    worst, base = (max(gap.max_abs for gap in gaps) for gaps in (candidate, baseline))
    allowed = max(math.log(MAX_TOKEN_RATIO), MAX_TAIL_FACTOR * base)
    return held(worst <= allowed, f"worst token off by {worst:.3g} nat (baseline {base:.3g}, allowed {allowed:.3g})")


def _routing(candidate: Sequence[Observation], baseline: Sequence[Observation]) -> list[Finding]:
    """Judge how often trainer and rollout would choose the same experts.

    Nothing is said where the baseline was not measured: routes are recorded where they are replayed, and a candidate
    that begins to replay them has no floor to be held against.
    """
    ours, theirs = ([step.router_agreement_frac for step in steps] for steps in (candidate, baseline))
    if all(value is None for value in theirs):
        return []
    ours, theirs = finite_or_none(ours), finite_or_none(theirs)
    if ours is None or theirs is None or not all(0 <= value <= 1 for value in (*ours, *theirs)):
        return [unknown("router agreement is missing in a step of an arm, or is no fraction")]
    level, floor = statistics.fmean(ours), min(theirs)
    text = f"router agreement {level:.4g} (lowest of the A/A repeat {floor:.4g})"
    return [held(level >= floor - ROUTER_ROOM_FRAC, text)]


def _growth(launches: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]], max_k3: float) -> Finding:
    """Judge every launch by itself, for each begins at the same weights: the fastest growth counts."""
    level = statistics.median(k3 for launch in launches for k3 in launch)
    if level < MIN_GROWTH_LEVEL_FRAC * max_k3:
        return held(True, f"k3 below {MIN_GROWTH_LEVEL_FRAC:.0%} of the limit, growth not judged")
    allowed_frac = MAX_GROWTH_FRAC + max([0.0, *(growth for growth, p in map(_grown, baseline) if p <= MAX_CHANCE)])
    growth_frac, p_rising = max(map(_grown, launches), key=lambda found: found[0] if found[1] <= MAX_CHANCE else -1.0)
    grows = p_rising <= MAX_CHANCE and growth_frac > allowed_frac
    return held(not grows, f"k3 grows {growth_frac:+.0%} in {GROWTH_STEPS} steps (p={p_rising:.2g})")


def _grown(k3s: Sequence[float]) -> tuple[float, float]:
    """Return the growth in 8 steps of one launch's k3 and its chance."""
    if len(k3s) < MIN_POINTS:
        return 0.0, 1.0
    return math.expm1(log_growth(k3s)), trend(k3s).p_rising


def log_growth(k3s: Sequence[float]) -> float:
    """Return ln of the growth in 8 steps, by the slope of log k3: +45 % is +45 % early and late.

    Values at or below 0 (rounding) stand at `FLOOR_FRAC` of the median; where that is 0 as well, nothing grows.
    """
    floor = FLOOR_FRAC * statistics.median(k3s)
    if floor <= 0:
        return 0.0
    return theil_sen_slope([math.log(max(k3, floor)) for k3 in k3s]) * GROWTH_STEPS


def _k3_by_launch(steps: Sequence[Observation]) -> list[list[float]]:
    return [[step.mismatch.k3 for step in launch if step.mismatch is not None] for launch in by_launch(steps)]
