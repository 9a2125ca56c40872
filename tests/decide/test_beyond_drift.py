"""When recorded steps of the incumbent are enough to follow a candidate."""

import math

import pytest
from decision_records import noise, times

from steptune.core.profile import NoiseFloor
from steptune.decide.beyond_drift import is_beyond_drift, worst_case

FLOOR = NoiseFloor(
    within_launch_cv=0.03, between_launch_frac=0.01, aa_ratio=times(1.0, None, None, n=None), num_steps=4
)


def test_the_worst_case_holds_steps_and_launches() -> None:
    # no interval of the repeat: 3 % a step / root of 4, 1 % between launches, three of both
    assert worst_case(4, FLOOR) == pytest.approx(math.exp(3 * math.hypot(0.015, 0.01)))
    assert worst_case(16, FLOOR) < worst_case(4, FLOOR)
    assert worst_case(10**6, noise(0.02)) == pytest.approx(math.exp(3 * 0.02), abs=1e-3)


def test_a_gain_must_exceed_what_the_machine_may_have_gained() -> None:
    assert is_beyond_drift(0.7, 0.01)
    assert not is_beyond_drift(0.8, 0.01)  # a fifth faster, which a machine may be by itself
    assert not is_beyond_drift(1.0, 0.01)


@pytest.mark.parametrize(("slow_end", "worth"), [(math.nan, 0.01), (0.5, math.nan), (math.inf, 0.01)])
def test_an_unknown_ratio_or_least_gain_is_beyond_nothing(slow_end: float, worth: float) -> None:
    assert not is_beyond_drift(slow_end, worth)
