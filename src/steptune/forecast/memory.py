"""Whether a configuration fits in memory: yes, no, or too close to call, and then how likely.

The measured peak of the baseline anchors it; the adapter's model only supplies the difference between two plans.
"""

from steptune.core.estimate import Estimate, Source
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork

MODEL_ERROR_FRAC = 0.3
"""Error of the planned *difference* in memory, as a part of it. Prior, to be replaced by bench."""

PEAK_ERROR_FRAC = 0.03
"""Spread of a measured peak between launches (allocator, fragmentation). Prior, to be replaced by bench."""


def memory_peak(profile: Profile, planned_baseline: PlannedWork, planned: PlannedWork) -> Estimate | None:
    """Return the forecast peak in bytes; None when the baseline's own peak is unknown."""
    measured = profile.memory_peak_bytes
    if measured is None:
        return None
    extra = planned.memory_bytes - planned_baseline.memory_bytes
    error = PEAK_ERROR_FRAC * measured.value + MODEL_ERROR_FRAC * abs(extra)
    peak = measured.value + extra
    return Estimate(value=peak, low=peak - error, high=peak + error, unit="bytes", source=Source.FORECAST)


def fits(peak: Estimate | None, *, total_memory_bytes: int, headroom_frac: float) -> bool | None:
    """Return whether the peak leaves ``headroom_frac`` of memory free; None when its interval straddles the limit.

    >>> tight = Estimate(value=8.1e9, low=7.8e9, high=8.4e9, unit="bytes", source=Source.FORECAST)
    >>> fits(tight, total_memory_bytes=10**10, headroom_frac=0.2) is None
    True
    """
    if peak is None or peak.low is None or peak.high is None:
        return None
    limit = total_memory_bytes * (1 - headroom_frac)
    if peak.high <= limit:
        return True
    return False if peak.low > limit else None


def fit_chance(peak: Estimate | None, *, total_memory_bytes: int, headroom_frac: float) -> float:
    """Return the chance that the peak leaves ``headroom_frac`` of memory free; an unknown peak is taken to fit.

    The peak is taken to lie anywhere in its interval with the same density.

    >>> half = Estimate(value=8e9, low=7.6e9, high=8.4e9, unit="bytes", source=Source.FORECAST)
    >>> fit_chance(half, total_memory_bytes=10**10, headroom_frac=0.2)
    0.5
    """
    if peak is None or peak.low is None or peak.high is None:
        return 1.0
    limit = total_memory_bytes * (1 - headroom_frac)
    if peak.high <= peak.low:
        return float(peak.high <= limit)
    return min(1.0, max(0.0, (limit - peak.low) / (peak.high - peak.low)))
