"""Trip-wires: the conditions under which a decision no longer holds, for `watch` to hold the running job against.

Bounds come from the owner's limits and the thresholds the guards used, never from what the trial happened to
measure plus a little; only the truncated fraction and the step time, which have no absolute limit, start from
an observed value.
"""

import math

from steptune.core.decision import Tripwire
from steptune.core.gates import MAX_TRUNCATION_RISE, MIN_ESS_FRAC
from steptune.core.job import LimitsSpec

RETURN = "return to the baseline configuration"
"""What to do when the training itself may be harmed."""

PROFILE_AGAIN = "profile and tune again: the gain is gone"
"""What to do when only the speed is lost."""


def tripwires(
    *,
    limits: LimitsSpec,
    own_lag: int,
    baseline_step_s: float,
    baseline_truncated_frac: float | None,
    total_memory_bytes: int,
) -> tuple[Tripwire, ...]:
    """Return the wires of a tuned configuration; one whose bound is not known is left out.

    Args:
        limits: the owner's limits.
        own_lag: lag in updates that the algorithm has without staleness.
        baseline_step_s: baseline step time; a tuned step as slow as that has lost its gain.
        baseline_truncated_frac: truncated fraction of the baseline, 0..1; None when it was not stated.
        total_memory_bytes: memory that the head-room is a part of.
    """
    allowed_bytes = (1.0 - limits.memory_headroom_frac) * total_memory_bytes
    truncated = math.nan if baseline_truncated_frac is None else baseline_truncated_frac + MAX_TRUNCATION_RISE
    wires = (
        Tripwire(metric="mismatch_k3", bound=limits.max_mismatch_k3, above=True, action=RETURN),
        Tripwire(metric="lag_max", bound=limits.max_staleness + own_lag, above=True, action=RETURN),
        Tripwire(metric="ess_frac", bound=MIN_ESS_FRAC, above=False, action=RETURN),
        Tripwire(metric="truncated_frac", bound=truncated, above=True, action=RETURN),
        Tripwire(metric="step_time_s", bound=baseline_step_s, above=True, action=PROFILE_AGAIN),
        Tripwire(metric="memory_peak_bytes", bound=allowed_bytes, above=True, action=RETURN),
    )
    return tuple(wire for wire in wires if math.isfinite(wire.bound))
