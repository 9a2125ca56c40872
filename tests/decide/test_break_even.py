import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.decide.break_even import break_even_step


def test_it_is_the_first_step_at_which_the_saving_covers_the_cost() -> None:
    # saving 0.5 s a step: 10 s after 20 steps, 10.2 s after 21
    assert break_even_step(baseline_step_s=1.0, tuned_step_s=0.5, cost_wall_s=10.0) == 20
    assert break_even_step(baseline_step_s=1.0, tuned_step_s=0.5, cost_wall_s=10.2) == 21
    assert break_even_step(baseline_step_s=1.0, tuned_step_s=0.5, cost_wall_s=0.0) == 0


@pytest.mark.parametrize(
    ("baseline_step_s", "tuned_step_s", "cost_wall_s"),
    [(1.0, 1.0, 10.0), (1.0, 1.2, 10.0), (math.nan, 0.5, 10.0), (1.0, 0.5, math.nan), (1.0, 0.5, math.inf)],
)
def test_no_saving_or_an_unknown_one_never_pays(
    baseline_step_s: float, tuned_step_s: float, cost_wall_s: float
) -> None:
    assert break_even_step(baseline_step_s=baseline_step_s, tuned_step_s=tuned_step_s, cost_wall_s=cost_wall_s) is None


@given(st.floats(0.1, 100), st.floats(0.01, 0.99), st.floats(0, 1e5))
def test_it_is_the_smallest_such_step(baseline_s: float, frac: float, cost_s: float) -> None:
    tuned_s = frac * baseline_s
    n = break_even_step(baseline_step_s=baseline_s, tuned_step_s=tuned_s, cost_wall_s=cost_s)
    assert n is not None
    assert n * (baseline_s - tuned_s) >= cost_s * (1 - 1e-12)
    assert n == 0 or (n - 1) * (baseline_s - tuned_s) < cost_s
