import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from propose_cases import EFFECTS, change, ranked

from steptune.core.knob import Effect
from steptune.propose.choose import guilty_moves, improvement, next_change
from steptune.propose.ranked import Z_80, RankedChange

NOISE = 0.03
A, B, AB = change(a=1), change(b=1), change(a=1, b=1)


def test_the_first_trial_is_the_best_forecast_overall() -> None:
    # AB is far less certain than A, and still comes first
    assert next_change([ranked(0.7, A), ranked(0.6, AB, spread=1.5)], set(), set(), 1.0, NOISE) == 1


def test_later_the_surest_gain_comes_first() -> None:
    # slow ends: 0.7 x 1.05 = 0.735 against 0.6 x 1.5 = 0.9
    options = [ranked(0.7, A), ranked(0.6, AB, spread=1.5), ranked(0.9, B)]
    assert next_change(options, {"another"}, set(), 1.0, NOISE) == 0


def priced(mid: float, cost_steps: float, spread: float = 1.05, fit_chance: float = 1.0, **moved: int) -> RankedChange:
    return replace(ranked(mid, change(**moved), spread), cost_steps=cost_steps, fit_chance=fit_chance)


def test_equal_gains_are_had_the_cheaper_way() -> None:
    for tried in (set[str](), {"another"}):
        assert next_change([priced(0.7, 40, a=1), priced(0.7, 25, b=1)], tried, set(), 1.0, NOISE) == 1
    assert next_change([ranked(0.7, AB), ranked(0.7, B)], set(), set(), 1.0, NOISE) == 1


def test_a_dear_trial_must_promise_more() -> None:
    cheap = priced(0.70, 24, b=1)
    assert next_change([priced(0.68, 44, a=1), cheap], {"another"}, set(), 1.0, NOISE) == 1
    # slow ends 0.525 and 0.735: gains of 64 and 31 %, for 36 and 24 steps
    assert next_change([priced(0.50, 36, a=1), cheap], {"another"}, set(), 1.0, NOISE) == 0


def test_among_hopes_the_expected_improvement_per_cost_decides() -> None:
    # nobody is sure (slow ends above 1): the vaguer one can improve more, but not at twice the cost
    vague, plain = priced(0.98, 30, spread=1.3, a=1), priced(0.98, 30, spread=1.2, b=1)
    assert next_change([plain, vague], {"another"}, set(), 1.0, NOISE) == 1
    assert next_change([plain, replace(vague, cost_steps=60)], {"another"}, set(), 1.0, NOISE) == 0


def test_a_change_that_may_not_fit_counts_by_its_chance() -> None:
    options = [priced(0.6, 30, fit_chance=0.4, a=1), priced(0.7, 30, b=1)]
    for tried in (set[str](), {"another"}):
        assert next_change(options, tried, set(), 1.0, NOISE) == 1


def test_a_trial_that_cannot_pay_within_the_horizon_is_not_made() -> None:
    # 1 % beyond the noise, known well: 100 of 10,000 steps
    small = priced(0.96, 90, spread=1.001, a=1)
    assert next_change([small], {"x"}, set(), 1.0, NOISE) == 0
    assert next_change([replace(small, cost_steps=120)], {"x"}, set(), 1.0, NOISE) is None


def test_the_expected_improvement_is_that_of_a_normal() -> None:
    # at the money: sd x phi(0) = 0.1 x 0.39894
    at_the_money = priced(0.97, 1, spread=math.exp(0.1 * Z_80), a=1)
    assert improvement(at_the_money, 0.97) == pytest.approx(0.039894, rel=1e-4)
    certain = RankedChange(change=A, low=0.5, mid=0.5, high=0.5)
    assert improvement(certain, 1.0) == pytest.approx(math.log(2))
    assert improvement(certain, 0.4) == 0.0


def test_nothing_is_tried_twice() -> None:
    assert next_change([ranked(0.6, AB), ranked(0.7, A)], {AB.signature}, set(), 1.0, NOISE) == 1


def test_after_a_guard_failed_candidates_without_the_guilty_move_come_next() -> None:
    options = [ranked(0.5, AB), ranked(0.55, B), ranked(0.7, A)]
    assert next_change(options, {AB.signature}, {("b", 1)}, 1.0, NOISE) == 2


@pytest.mark.parametrize(("low", "mid"), [(0.68, 0.69), (0.7, 0.7), (1.0, 1.2), (math.nan, math.nan)])
def test_none_when_even_the_fast_end_of_nothing_left_beats_the_noise(low: float, mid: float) -> None:
    # the incumbent is at 0.7, noise 3 %: less than 0.679 is needed
    assert next_change([RankedChange(change=A, low=low, mid=mid, high=2.0)], {"x"}, set(), 0.7, NOISE) is None


def test_no_candidates_no_trial() -> None:
    assert next_change([], set(), set(), 1.0, NOISE) is None


def test_guilt_follows_the_effect_class() -> None:
    big = change(Effect.STALENESS, layout="packed", dtype="bf16", schedule="one_step_off")
    assert guilty_moves(big, EFFECTS, {Effect.PRECISION}) == {("dtype", "bf16")}
    both = guilty_moves(big, EFFECTS, {Effect.PRECISION, Effect.STALENESS})
    assert both == {("dtype", "bf16"), ("schedule", "one_step_off")}


@given(
    mids=st.lists(st.floats(0.1, 2), min_size=1, max_size=12),
    incumbent=st.floats(0.2, 1),
    num_tried=st.integers(0, 12),
    banned=st.integers(0, 11),
)
def test_a_choice_is_new_innocent_and_may_be_better_than_the_incumbent(
    mids: list[float], incumbent: float, num_tried: int, banned: int
) -> None:
    options = [ranked(mid, change(a=i)) for i, mid in enumerate(mids)]
    tried = {r.change.signature for r in options[:num_tried]}
    index = next_change(options, tried, {("a", banned)}, incumbent, NOISE)
    possible = [i for i, r in enumerate(options) if i >= num_tried and i != banned and r.low < incumbent * (1 - NOISE)]
    assert index is None or index in possible
    gains = [i for i in possible if mids[i] < incumbent * 0.9]
    assert index is not None or not gains
