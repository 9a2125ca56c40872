import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.warmup import num_warmup_steps

STEADY = [1.0, 1.02, 0.99, 1.01, 1.0, 0.98, 1.01, 1.0]


def test_slow_first_steps_are_dropped() -> None:
    assert num_warmup_steps([9.0, 2.0, *STEADY]) == 2


def test_a_fast_ramp_up_is_warm_up_too() -> None:
    assert num_warmup_steps([0.2, 0.5, *STEADY]) == 2


def test_a_steady_run_loses_nothing() -> None:
    assert num_warmup_steps(STEADY) == 0


def test_a_hiccup_later_on_is_not_warm_up() -> None:
    assert num_warmup_steps([1.0, 1.01, 5.0, 1.0, *STEADY]) == 0


def test_a_run_that_never_settles_loses_half_at_most() -> None:
    assert num_warmup_steps([10.0, 9.0, 8.0, 7.0, 1.0, 1.0, 1.0, 1.0]) == 4


@pytest.mark.parametrize("times", [[], [9.0], [9.0, 1.0], [9.0, 1.0, 1.0]])
def test_too_few_steps_are_kept_as_they_are(times: list[float]) -> None:
    assert num_warmup_steps(times) == 0


def test_a_broken_step_time_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        num_warmup_steps([1.0, math.nan, 1.0, 1.0])


@given(st.lists(st.floats(0.001, 1000), max_size=40), st.floats(0.1, 100))
def test_the_answer_is_at_most_half_and_has_no_unit(times: list[float], scale: float) -> None:
    num = num_warmup_steps(times)
    assert 0 <= num <= len(times) // 2
    if all(t == times[0] for t in times):
        assert num_warmup_steps([scale * t for t in times]) == num
