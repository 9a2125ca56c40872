import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from propose_cases import EFFECTS, change, ranked

from steptune.core.knob import Effect, Restart
from steptune.propose.choose import guilty_moves, next_change
from steptune.propose.ranked import RankedChange

NOISE = 0.03
A, B, AB = change(a=1), change(b=1), change(a=1, b=1)


def test_the_first_trial_is_the_best_forecast_overall() -> None:
    # AB is far less certain than A, and still comes first
    assert next_change([ranked(0.7, A), ranked(0.6, AB, spread=1.5)], set(), set(), 1.0, NOISE) == 1


def test_later_the_surest_gain_comes_first() -> None:
    # slow ends: 0.7 x 1.05 = 0.735 against 0.6 x 1.5 = 0.9
    options = [ranked(0.7, A), ranked(0.6, AB, spread=1.5), ranked(0.9, B)]
    assert next_change(options, {"another"}, set(), 1.0, NOISE) == 0


def test_equal_gains_are_had_the_cheaper_way() -> None:
    relaunch = change(restart=Restart.RELAUNCH, a=1)
    for tried in (set[str](), {"another"}):
        assert next_change([ranked(0.7, relaunch), ranked(0.7, B)], tried, set(), 1.0, NOISE) == 1
    assert next_change([ranked(0.7, AB), ranked(0.7, B)], set(), set(), 1.0, NOISE) == 1


def test_a_dear_trial_must_promise_more() -> None:
    dear = change(restart=Restart.REALLOCATE, a=1)
    assert next_change([ranked(0.68, dear), ranked(0.70, B)], {"another"}, set(), 1.0, NOISE) == 1
    assert next_change([ranked(0.50, dear), ranked(0.70, B)], {"another"}, set(), 1.0, NOISE) == 0


def test_of_two_unsure_gains_the_dear_one_ranks_last() -> None:
    # both could be slower than now by the same 5 %: finding that out should at least be cheap
    dear = change(restart=Restart.REALLOCATE, a=1)
    options = [ranked(0.9, dear, spread=1.05 / 0.9), ranked(0.9, B, spread=1.05 / 0.9)]
    assert next_change(options, {"another"}, set(), 1.0, NOISE) == 1
    assert next_change(options[::-1], {"another"}, set(), 1.0, NOISE) == 0


def test_nothing_is_tried_twice() -> None:
    assert next_change([ranked(0.6, AB), ranked(0.7, A)], {AB.signature}, set(), 1.0, NOISE) == 1


def test_after_a_guard_failed_candidates_without_the_guilty_move_come_next() -> None:
    options = [ranked(0.5, AB), ranked(0.55, B), ranked(0.7, A)]
    assert next_change(options, {AB.signature}, {("b", 1)}, 1.0, NOISE) == 2


@pytest.mark.parametrize("mid", [0.68, 0.7, 1.2, math.nan])
def test_none_when_nothing_left_can_beat_the_noise(mid: float) -> None:
    # the incumbent is at 0.7, noise 3 %: less than 0.679 is needed
    assert next_change([RankedChange(change=A, low=0.1, mid=mid, high=2.0)], {"x"}, set(), 0.7, NOISE) is None


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
def test_a_choice_is_new_innocent_and_better_than_the_incumbent(
    mids: list[float], incumbent: float, num_tried: int, banned: int
) -> None:
    options = [ranked(mid, change(a=i)) for i, mid in enumerate(mids)]
    tried = {r.change.signature for r in options[:num_tried]}
    index = next_change(options, tried, {("a", banned)}, incumbent, NOISE)
    possible = [i for i, mid in enumerate(mids) if i >= num_tried and i != banned and mid < incumbent * (1 - NOISE)]
    assert index in possible if possible else index is None
