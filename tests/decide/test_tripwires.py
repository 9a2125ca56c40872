import math

import pytest

from steptune.core.job import LimitsSpec
from steptune.decide.tripwires import tripwires

LIMITS = LimitsSpec(max_staleness=1, max_mismatch_k3=1e-3, memory_headroom_frac=0.2)


def bounds(truncated_frac: float | None = 0.02, baseline_step_s: float = 1.0) -> dict[str, tuple[float, bool]]:
    wires = tripwires(
        limits=LIMITS,
        own_lag=1,
        baseline_step_s=baseline_step_s,
        baseline_truncated_frac=truncated_frac,
        total_memory_bytes=1000,
    )
    assert all(wire.action for wire in wires)
    return {wire.metric: (wire.bound, wire.above) for wire in wires}


def test_bounds_are_the_owners_limits_and_the_guards_thresholds() -> None:
    found = bounds()
    assert found == {
        "mismatch_k3": (1e-3, True),
        "lag_max": (2, True),
        "ess_frac": (0.3, False),
        "truncated_frac": (pytest.approx(0.07), True),
        "step_time_s": (1.0, True),
        "memory_peak_bytes": (800.0, True),
    }


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_a_wire_without_a_known_bound_is_left_out(unknown: float | None) -> None:
    assert "truncated_frac" not in bounds(truncated_frac=unknown)
    assert "step_time_s" not in bounds(baseline_step_s=math.nan)
