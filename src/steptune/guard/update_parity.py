"""Update parity: the candidate's trainer, fed the baseline's recorded batches, must arrive at the same weights.

"Same" is the baseline's own rounding: replays of the baseline with its micro-batches in another order. The surprise:
the distance alone is not enough. Clipping by the norm hides a gradient halved by mistake (verl's sequence parallelism
did this [V31]); the norm before clipping shows it at once. And parameters are not what the run samples from: a
distance that is small over all of them may sit in the few that decide, so the log-probs of a probe have a band of
their own.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.verdict import Verdict
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.stats.finite import finite_or_none

NAME = "update_parity"
"""Name in verdicts."""

BAND_FACTOR = 15.0
"""Allowed distance in units of the largest shuffled distance. Shuffling keeps the shapes of the matrix products;
another padding or micro-batch changes them, and with them the rounding: up to 1.3 times as far on the example
(2026-11-30, four batches of 128 rows, padded against sorted and shared_prefix, updates damped). The smallest faults
tried there were 3,400 times (temperature 1 -> 1.02) and 5,000 times (clipping at 1 -> 1.05) as far."""

ROUNDING_DISTANCE = 2e-5
"""Distance that float32 makes by itself, whatever the band: three times the farthest healthy layout of the example.
Rows that are sorted or packed stay where they are when they are shuffled, and show no rounding."""

PROBE_ROUNDING_NAT = 1e-5
"""Probe gap that the forward of another layout makes by itself in float32: logits near 10 have steps of 1e-6, and a sum
adds a few of them. The shuffled replays share one layout and do not show it."""

MIN_SHUFFLES = 2
"""Fewest shuffled replays: one alone cannot show that the band is a band."""

GRAD_NORM_REL_TOL = 1e-3
"""Allowed relative difference of each gradient norm; float32 reorderings stay below 1e-4, a lost factor is 0.1 up."""


def check_update_parity(
    *,
    distance: float | None,
    shuffled_band: Sequence[float],
    probe_gap: float | None,
    probe_band: Sequence[float | None],
    candidate_grad_norms: Sequence[float],
    baseline_grad_norms: Sequence[float],
) -> Verdict:
    """Judge one replay.

    Args:
        distance: relative L2 distance of candidate and baseline parameters, ||c - b|| / ||change of b||.
        shuffled_band: the same distance for replays of the baseline with shuffled micro-batches.
        probe_gap: root mean square difference of the probe's log-probs after the replay, in nats.
        probe_band: the same for the shuffled replays.
        candidate_grad_norms: gradient norm of every update, in order.
        baseline_grad_norms: the same of the baseline.
    """
    limit = (
        f"distance and probe gap at most {BAND_FACTOR:g} x the largest of {len(shuffled_band)} shuffled baselines, "
        f"gradient norms within {GRAD_NORM_REL_TOL:g}"
    )
    findings = [
        _banded("distance", distance, shuffled_band, rounding=ROUNDING_DISTANCE),
        _banded("probe gap", probe_gap, probe_band, rounding=PROBE_ROUNDING_NAT),
        _grad_norms(candidate_grad_norms, baseline_grad_norms),
    ]
    known = None if distance is None else Estimate(value=distance, unit="frac", source=Source.DERIVED)
    return combined(NAME, findings, limit=limit, measured=known)


def probe_gap(candidate: Sequence[float], baseline: Sequence[float]) -> float | None:
    """Return the root mean square difference of two probes' log-probs, nats; None if they do not match or are broken.

    >>> probe_gap([-1.0, -2.0], [-1.0, -2.2])
    0.14142135623730964
    """
    if not candidate or len(candidate) != len(baseline) or finite_or_none((*candidate, *baseline)) is None:
        return None
    return math.sqrt(statistics.fmean((c - b) ** 2 for c, b in zip(candidate, baseline, strict=True)))


def _banded(what: str, measured: float | None, shuffled_band: Sequence[float | None], *, rounding: float) -> Finding:
    known = finite_or_none((measured, *shuffled_band))
    if known is None or min(known) < 0:
        return unknown(f"a {what} is missing or broken: {measured} against {list(shuffled_band)}")
    if len(shuffled_band) < MIN_SHUFFLES:
        return unknown(f"need {MIN_SHUFFLES} shuffled baselines, got {len(shuffled_band)}")
    value, widest = known[0], max(known[1:])
    if widest == 0 and value > rounding:
        return unknown(f"{what} {value:.2g}, but shuffling moved nothing, so rounding has no known size")
    return held(
        value <= max(BAND_FACTOR * widest, rounding), f"{what} {value:.2g}, shuffled baselines up to {widest:.2g}"
    )


def _grad_norms(candidate: Sequence[float], baseline: Sequence[float]) -> Finding:
    """Compare update by update. One without a gradient (no group is mixed) is measured by the largest norm there is."""
    if finite_or_none((*candidate, *baseline)) is None or not baseline or min(baseline) < 0 or max(baseline) == 0:
        return unknown("gradient norms are missing, not finite or all zero")
    if len(candidate) != len(baseline):
        return held(False, f"{len(candidate)} updates where the baseline makes {len(baseline)}")
    worst = max(abs(c - b) / (b or max(baseline)) for c, b in zip(candidate, baseline, strict=True))
    return held(worst <= GRAD_NORM_REL_TOL, f"gradient norms differ by up to {worst:.2g} of their size")
