"""Memory: is there head-room now, and will there be in a hundred steps?

A fit is not permanent: public runs died of memory after 54, 120 and 160 steps [X11 U05 X10]. Growth that would
break the limit by then is INCONCLUSIVE, not FAIL: a longer look either sees it level off or sees it break.
"""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation
from steptune.core.units import mib
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.guard.launches import long_launches
from steptune.stats.finite import finite_or_none
from steptune.stats.trend import trend

NAME = "memory"
"""Name in verdicts."""

HORIZON_STEPS = 160
"""Steps ahead that growth is carried on: the latest of the three reported deaths."""

MAX_CHANCE = 0.05
"""One-sided p value above which growth is chance."""


def check_memory(candidate: Sequence[Observation], *, total_bytes: int, headroom_frac: float) -> Verdict:
    """Judge the candidate's peak memory against the part of ``total_bytes`` that may be used; growth by launch."""
    allowed_bytes = (1.0 - headroom_frac) * total_bytes
    limit = f"peak at most {mib(allowed_bytes):.0f} MiB ({headroom_frac:.0%} of {mib(total_bytes):.0f} MiB stay free)"
    peaks = finite_or_none(observation.memory_peak_bytes for observation in candidate)
    if peaks is None or not peaks or min(peaks) <= 0:
        return combined(NAME, [unknown("the peak of a step is missing or impossible")], limit=limit)
    peak = max(peaks)
    findings = [
        held(peak <= allowed_bytes, f"peak {mib(peak):.0f} MiB"),
        *(_growth(launch, allowed_bytes) for launch in long_launches(candidate, MIN_STEPS)),
    ]
    measured = Estimate(value=peak, unit="bytes", source=Source.MEASURED, n=len(peaks), note="peak over steps")
    return combined(NAME, findings, limit=limit, measured=measured)


def _growth(launch: Sequence[Observation], allowed_bytes: float) -> Finding:
    peaks = [float(step.memory_peak_bytes or 0) for step in launch]
    if len(peaks) < MIN_STEPS:
        return unknown(f"need {MIN_STEPS} steps to see growth, got {len(peaks)}")
    rise = trend(peaks)
    later = peaks[-1] + rise.slope * HORIZON_STEPS
    text = f"peak grows {mib(rise.slope):.3g} MiB per step"
    if rise.p_rising <= MAX_CHANCE and later > allowed_bytes:
        return unknown(f"{text}: {mib(later):.0f} MiB in {HORIZON_STEPS} steps")
    return held(True, text)
