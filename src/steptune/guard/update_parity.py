"""Update parity: the candidate's trainer, fed the baseline's recorded batches, must arrive at the same weights.

"Same" is the baseline's own rounding: replays of the baseline with its micro-batches in another order. The
surprise: the distance alone is not enough. Adam divides by the gradient's own size, so a gradient halved by
mistake moves the weights almost as before (verl's sequence parallelism did this [V31]); the gradient norm
shows it at once.
"""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.verdict import Verdict
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.stats.finite import finite_or_none

NAME = "update_parity"
"""Name in verdicts."""

BAND_FACTOR = 15.0
"""Allowed distance in units of the largest shuffled distance. Shuffling keeps the shapes of the matrix products;
another padding or micro-batch changes them, and with them the rounding: up to 6.3 times as far on the example
(2026-11-30, four batches of 128 rows, padded against sorted and packed). The smallest faults tried there were 930
times (gradient clip 2.4 -> 0.2), 3,600 (temperature 1 -> 1.02) and 68,000 times (another aggregation) as far."""

MIN_SHUFFLES = 2
"""Fewest shuffled replays: one alone cannot show that the band is a band."""

GRAD_NORM_REL_TOL = 1e-3
"""Allowed relative difference of each gradient norm; float32 reorderings stay below 1e-4, a lost factor is 0.1 up."""


def check_update_parity(
    *,
    distance: float | None,
    shuffled_band: Sequence[float],
    candidate_grad_norms: Sequence[float],
    baseline_grad_norms: Sequence[float],
) -> Verdict:
    """Judge one replay.

    Args:
        distance: relative L2 distance of candidate and baseline parameters, ||c - b|| / ||change of b||.
        shuffled_band: the same distance for replays of the baseline with shuffled micro-batches.
        candidate_grad_norms: gradient norm of every update, in order.
        baseline_grad_norms: the same of the baseline.
    """
    limit = (
        f"distance at most {BAND_FACTOR:g} x the largest of {len(shuffled_band)} shuffled baselines, "
        f"gradient norms within {GRAD_NORM_REL_TOL:g}"
    )
    findings = [_distance(distance, shuffled_band), _grad_norms(candidate_grad_norms, baseline_grad_norms)]
    known = None if distance is None else Estimate(value=distance, unit="frac", source=Source.DERIVED)
    return combined(NAME, findings, limit=limit, measured=known)


def _distance(distance: float | None, shuffled_band: Sequence[float]) -> Finding:
    known = finite_or_none((distance, *shuffled_band))
    if known is None or min(known) < 0:
        return unknown(f"a distance is missing or broken: {distance} against {list(shuffled_band)}")
    if len(shuffled_band) < MIN_SHUFFLES:
        return unknown(f"need {MIN_SHUFFLES} shuffled baselines, got {len(shuffled_band)}")
    measured, widest = known[0], max(shuffled_band)
    if widest == 0 and measured > 0:
        return unknown(f"distance {measured:.2g}, but shuffling moved nothing, so rounding has no known size")
    return held(measured <= BAND_FACTOR * widest, f"distance {measured:.2g}, shuffled baselines up to {widest:.2g}")


def _grad_norms(candidate: Sequence[float], baseline: Sequence[float]) -> Finding:
    if finite_or_none((*candidate, *baseline)) is None or not baseline or min(baseline) <= 0:
        return unknown("gradient norms are missing, not finite or zero")
    if len(candidate) != len(baseline):
        return held(False, f"{len(candidate)} updates where the baseline makes {len(baseline)}")
    worst = max(abs(c - b) / b for c, b in zip(candidate, baseline, strict=True))
    return held(worst <= GRAD_NORM_REL_TOL, f"gradient norms differ by up to {worst:.2g} of their size")
