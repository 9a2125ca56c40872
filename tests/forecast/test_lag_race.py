"""The race of a stream and its trainer: what can be worked out by hand, and what must hold of every one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lag_cases import NUM_STEPS, costs, equal_groups, mean_lag, shares, stream

from steptune.core.lag import StreamLag
from steptune.forecast.lag.race import race
from steptune.forecast.lag.replica import Rows

ROWS = st.tuples(st.integers(1, 9), st.integers(1, 20))
GROUPS = st.lists(st.tuples(ROWS, ROWS), min_size=4, max_size=12)
PLANS = st.builds(
    lambda max_lag, updates, replicas, routing, in_flight: stream(
        max_lag=max_lag * updates,
        updates_per_step=updates,
        num_replicas=replicas,
        num_slots=4 // replicas,
        routing=routing,
        takes_in_flight=in_flight,
    ),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from(["in_turn", "fewest_open"]),
    st.booleans(),
)
TRAIN_S = st.floats(0.0, 2.0)


def test_a_rollout_that_waits_for_the_bound_makes_groups_as_old_as_they_may_be() -> None:
    # a step's two groups take 0.1 s of decoding, training takes 10 s: everything waits, everything is one update old
    assert shares(race(stream(), costs(train_s=10.0), equal_groups(), num_steps=NUM_STEPS)) == {1: 1.0}
    assert mean_lag(stream(max_lag=3), costs(train_s=10.0), equal_groups()) == pytest.approx(3.0)


def test_without_age_nothing_is_ahead() -> None:
    steps = race(stream(max_lag=0), costs(train_s=0.3), equal_groups(), num_steps=NUM_STEPS)
    assert shares(steps) == {0: 1.0}
    # the trainer waits for the rollout and the rollout for the trainer: 10 iterations of 0.01 s, then 0.3 s
    assert {round(step.seconds, 9) for step in steps} == {0.4}


def test_equal_rows_take_the_weights_that_are_there_when_they_end() -> None:
    # all slots run empty at once; the weights of the step that just ended are there if training takes no time, and
    # come a moment too late for the next groups if it takes one
    assert shares(race(stream(), costs(train_s=0.0), equal_groups(), num_steps=NUM_STEPS)) == {0: 1.0}
    assert shares(race(stream(), costs(train_s=1e-6), equal_groups(), num_steps=NUM_STEPS)) == {1: 1.0}


def test_weights_in_flight_make_most_tokens_fresh_where_the_rollout_is_the_slower_side() -> None:
    plan = stream(takes_in_flight=True, max_lag=2)
    in_flight = mean_lag(plan, costs(train_s=1e-6), equal_groups(50))
    assert in_flight < mean_lag(stream(max_lag=2), costs(train_s=1e-6), equal_groups(50)) == pytest.approx(1.0)


def test_a_step_is_the_longer_side_where_both_are_even() -> None:
    # decoding 0.1 s a step without a break (in flight), training 0.25 s
    steps = race(stream(takes_in_flight=True), costs(train_s=0.25), equal_groups(), num_steps=NUM_STEPS)
    assert sum(step.seconds for step in steps) / NUM_STEPS == pytest.approx(0.25)
    assert max(step.wait_s for step in steps) == pytest.approx(0.0)


@settings(max_examples=30, deadline=None)
@given(PLANS, GROUPS, TRAIN_S)
def test_no_age_is_beyond_the_bound_and_every_token_of_a_step_is_counted(
    plan: StreamLag, groups: list[Rows], train_s: float
) -> None:
    steps = race(plan, costs(train_s=train_s, load_s=0.01, group_s=0.002, handover_s=0.01), groups, num_steps=NUM_STEPS)
    assert all(0 <= lag <= plan.max_lag for step in steps for lag in step.tokens_by_lag)
    assert all(lag % plan.updates_per_step == 0 for step in steps for lag in step.tokens_by_lag)
    first = 2 * (plan.capacity // 2) + 2
    for number, step in enumerate(steps, start=first):
        own = (groups[place % len(groups)] for place in (2 * number, 2 * number + 1))
        assert sum(step.tokens_by_lag.values()) == sum(completion for rows in own for _, completion in rows)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.booleans(), GROUPS, st.floats(1.0, 4.0))
def test_more_rollout_capacity_never_lowers_the_age_of_a_held_queue(
    max_lag: int, in_flight: bool, groups: list[Rows], speed: float
) -> None:
    # held: a step of the trainer takes longer than all the decoding that the bound allows
    plan, train_s = stream(max_lag=max_lag, takes_in_flight=in_flight), 0.01 * 20 * 2 * (1 + max_lag)
    slow = mean_lag(plan, costs(train_s=train_s), groups)
    fast = mean_lag(plan, costs(train_s=train_s, decode_s=0.01 / speed), groups)
    assert fast >= slow - 1e-9


@settings(max_examples=20, deadline=None)
@given(PLANS, GROUPS, TRAIN_S, st.floats(0.1, 1000.0))
def test_ages_do_not_depend_on_the_unit_of_time(
    plan: StreamLag, groups: list[Rows], train_s: float, unit: float
) -> None:
    # powers of two keep every sum exact
    unit = 2.0 ** round(unit % 10)
    one = race(plan, costs(train_s=train_s, load_s=0.01), groups, num_steps=NUM_STEPS)
    other = race(plan, costs(train_s=train_s * unit, decode_s=0.01 * unit, load_s=0.01 * unit), groups, num_steps=16)
    assert [step.tokens_by_lag for step in one] == [step.tokens_by_lag for step in other]


def test_two_replicas_of_half_the_slots_are_as_old_as_one_in_a_held_queue() -> None:
    one = mean_lag(stream(), costs(train_s=10.0), equal_groups())
    two = mean_lag(stream(num_replicas=2, num_slots=2), costs(train_s=10.0), equal_groups())
    assert one == two == pytest.approx(1.0)
