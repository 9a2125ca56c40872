import random

import pytest

from steptune.stats.looks import CONFIRM_LOOKS, TRIAL_LOOKS, LookPlan, repeated_ratio_interval
from steptune.stats.ratio import ratio_interval
from steptune.stats.student_t import t_quantile

NUM_SEQUENCES = 20_000


def wrong_frac(plan: LookPlan, *, launch_sd: float, seed: int) -> float:
    """Share of unchanged sequences that any look calls changed, upwards; the spread comes from two sources."""
    rng = random.Random(seed)
    limits = {num: t_quantile(1 - tail, num - 1) for num, tail in plan.tails.items()}
    wrong = 0
    for _ in range(NUM_SEQUENCES):
        total = squares = 0.0
        for num in range(1, plan.last + 1):
            value = rng.gauss(0, 1) + rng.gauss(0, launch_sd)
            total, squares = total + value, squares + value * value
            if num in limits:
                variance = (squares - total * total / num) / (num - 1)
                if total / num > limits[num] * (variance / num) ** 0.5:
                    wrong += 1
                    break
    return wrong / NUM_SEQUENCES


@pytest.mark.parametrize("plan", [TRIAL_LOOKS, CONFIRM_LOOKS])
@pytest.mark.parametrize("launch_sd", [0.0, 3.0])
def test_stopping_at_the_first_clear_look_is_wrong_in_2_5_percent_a_side_at_any_spread(
    plan: LookPlan, launch_sd: float
) -> None:
    # 20,000 sequences: standard error 0.11 %
    assert wrong_frac(plan, launch_sd=launch_sd, seed=5) == pytest.approx(0.025, abs=0.0033)


def test_every_look_asks_for_more_than_a_plain_interval_and_the_last_for_the_least() -> None:
    for plan in (TRIAL_LOOKS, CONFIRM_LOOKS):
        assert all(0 < tail < 0.025 for tail in plan.tails.values())
        assert list(plan.tails.values()) == sorted(plan.tails.values())
        above, below = [1.0 + 0.1 * (i % 3) for i in range(plan.last)], [1.0] * plan.last
        plain, look = ratio_interval(above, below), repeated_ratio_interval(above, below, plan)
        assert look.low < plain.low < look.value < plain.high < look.high
        assert look.confidence == 0.95


def test_between_two_looks_the_share_of_the_coming_one_is_used_and_after_the_last_its_own() -> None:
    assert [TRIAL_LOOKS.tail_at(num) for num in (2, 4, 5, 8, 9)] == [0.0090, 0.0090, 0.0181, 0.0181, 0.0181]


def test_a_ratio_and_its_inverse_have_inverse_intervals() -> None:
    above, below = [1.0, 1.1, 0.9], [2.0, 2.1, 1.9]
    one, other = (
        repeated_ratio_interval(above, below, CONFIRM_LOOKS),
        repeated_ratio_interval(below, above, CONFIRM_LOOKS),
    )
    assert (1 / other.high, 1 / other.low) == pytest.approx((one.low, one.high))
