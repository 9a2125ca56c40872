"""What must hold of every forecast: units, more work, doubling, one of everything."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_model_cases import ahead, cluster, drawn_work, group, sides, work

from steptune.core.phase import Role
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.cluster.sync import SyncCosts
from steptune.forecast.cluster.work import GroupShape, RowShape, Wait, Work

SCHEDULES = st.sampled_from([QueueKnobs(), QueueKnobs(schedule="one_step_off"), ahead(1), ahead(2)])


def longer(job: Work, factor: int) -> Work:
    """Every completion and prompt that many times as long."""
    steps = tuple(
        tuple(
            GroupShape(prompt=g.prompt * factor, rows=tuple(RowShape(tokens=r.tokens * factor) for r in g.rows))
            for g in step
        )
        for step in job.steps
    )
    return Work(steps=steps, max_completion=job.max_completion * factor)


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES, factor=st.sampled_from([4.0, 1024.0, 3.0, 1000.0]))
def test_milliseconds_and_seconds_give_the_same_ratio(seed: int, queue: QueueKnobs, factor: float) -> None:
    # powers of two scale without rounding; the others let a tie in the simulated queue fall the other way
    tolerance = 1e-9 if factor in (4.0, 1024.0) else 5e-3
    job = sides(drawn_work(seed))
    own = job.parameters.scaled(rollout=factor, train=factor, sync=factor)
    other = Sides(parameters=own, work=job.work)
    made = cluster(queue=queue)
    assert step_seconds(other, made, num_steps=6) == pytest.approx(
        factor * step_seconds(job, made, num_steps=6), rel=tolerance
    )


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES)
def test_twice_as_long_rows_are_never_faster(seed: int, queue: QueueKnobs) -> None:
    job = sides(drawn_work(seed))
    twice = Sides(parameters=job.parameters, work=longer(job.work, 2))
    made = cluster(queue=queue)
    assert step_seconds(twice, made, num_steps=6) > step_seconds(job, made, num_steps=6)


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES, seconds=st.floats(0.1, 2.0))
def test_waiting_for_tools_is_never_faster_in_order(seed: int, queue: QueueKnobs, seconds: float) -> None:
    job = sides(drawn_work(seed))
    steps = tuple(
        tuple(
            replace(
                g,
                rows=tuple(
                    replace(r, waits=(Wait(at_token=1, seconds=seconds),) if r.tokens > 1 else ()) for r in g.rows
                ),
            )
            for g in step
        )
        for step in job.work.steps
    )
    waits = Sides(parameters=job.parameters, work=replace(job.work, steps=steps))
    made = cluster(queue=queue)
    # a wait can only reorder admissions: at most an iteration is won back
    assert step_seconds(waits, made, num_steps=6) >= step_seconds(job, made, num_steps=6) * 0.98


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES)
def test_dearer_prices_are_never_faster(seed: int, queue: QueueKnobs) -> None:
    job, made = sides(drawn_work(seed)), cluster(queue=queue)
    was_s = step_seconds(job, made, num_steps=8)
    for side in ("rollout", "train", "sync"):
        dearer = Sides(parameters=job.parameters.scaled(**{side: 1.5}), work=job.work)
        assert step_seconds(dearer, made, num_steps=8) >= was_s * 0.99


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES, tokens=st.integers(1, 200))
def test_another_row_in_every_group_is_never_faster(seed: int, queue: QueueKnobs, tokens: int) -> None:
    job, made = sides(drawn_work(seed)), cluster(queue=queue)
    steps = tuple(tuple(replace(g, rows=(*g.rows, RowShape(tokens=tokens))) for g in s) for s in job.work.steps)
    more = Sides(parameters=job.parameters, work=replace(job.work, steps=steps))
    # an admission may fall on the other side of an iteration: at most that is won back
    assert step_seconds(more, made, num_steps=6) >= step_seconds(job, made, num_steps=6) * 0.98


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=st.sampled_from([QueueKnobs(), QueueKnobs(schedule="one_step_off")]))
def test_tokens_counted_in_halves_give_the_same_step(seed: int, queue: QueueKnobs) -> None:
    """Twice as many of half the price: the unit of a token is nobody's business where phases add."""
    job, made = sides(drawn_work(seed)), cluster(queue=queue)
    own = job.parameters
    curve = own.rollout.decode
    halves = replace(
        own,
        rollout=replace(
            own.rollout,
            decode=replace(curve, seconds=tuple(s / 2 for s in curve.seconds), _table={}),
            prefill_per_token_s=own.rollout.prefill_per_token_s / 2,
        ),
        train=replace(own.train, per_token_s=own.train.per_token_s / 2),
    )
    budget = replace(made.train, micro_batch_tokens=2 * made.train.micro_batch_tokens)
    twice = Sides(parameters=halves, work=longer(job.work, 2))
    assert step_seconds(twice, replace(made, train=budget)) == pytest.approx(step_seconds(job, made))


@settings(max_examples=12)
@given(num_bytes=st.floats(1e6, 1e12), bandwidth=st.floats(1e8, 1e12), replicas=st.integers(1, 64))
def test_twice_the_bytes_on_twice_the_bandwidth_travel_as_long(
    num_bytes: float, bandwidth: float, replicas: int
) -> None:
    for is_broadcast in (True, False):
        one = SyncCosts(num_bytes=num_bytes, bytes_per_s=bandwidth, pause_s=0.1, is_broadcast=is_broadcast)
        two = replace(one, num_bytes=2 * num_bytes, bytes_per_s=2 * bandwidth)
        assert two.seconds(replicas) == pytest.approx(one.seconds(replicas))
        assert replace(one, num_bytes=2 * num_bytes).seconds(replicas) > one.seconds(replicas)


@settings(max_examples=12)
@given(seed=st.integers(0, 300), schedule=st.sampled_from(["sync", "one_step_off", "async", "shared"]))
def test_no_phase_of_a_role_is_longer_than_the_step_or_below_zero(seed: int, schedule: str) -> None:
    queue = {"one_step_off": QueueKnobs(schedule="one_step_off"), "async": ahead(2)}.get(schedule, QueueKnobs())
    made = forecast_step(sides(drawn_work(seed)), replace(cluster(2, 2, queue), is_colocated=schedule == "shared"))
    assert {role for role, _ in made.phases} == {Role.ROLLOUT, Role.TRAINER}
    # a jump in progress at the window's edge is booked where it lands: one step of 48 at most
    assert all(0 <= seconds <= made.step_s * 1.05 for seconds in made.phases.values())


@settings(max_examples=12)
@given(tokens=st.integers(0, 50), queue=SCHEDULES)
def test_one_sequence_on_one_device_a_side_is_forecast_whatever_its_length(tokens: int, queue: QueueKnobs) -> None:
    made = forecast_step(sides(work(group(tokens))), cluster(1, 1, queue))
    assert made.low_s <= made.step_s <= made.high_s
    # half a second of weights and 50 ms of optimizer are paid for any length; one row makes no batch of two
    assert made.step_s >= 0.55
    assert made.num_devices == 2
    assert sum(made.lag.values()) == pytest.approx(1)


def test_twice_the_groups_on_twice_the_devices_take_as_long() -> None:
    """Groups and ranks of equal rows: nothing but the number of copies changes."""
    one = work(*[group(20, 20, prompt=4)] * 4)
    two = work(*[group(20, 20, prompt=4)] * 8)
    for queue in (QueueKnobs(), QueueKnobs(schedule="one_step_off"), ahead(2)):
        half_s = step_seconds(sides(one), cluster(2, 2, queue))
        assert step_seconds(sides(two), cluster(4, 4, queue)) == pytest.approx(half_s)


def test_one_rollout_on_one_device_is_forecast() -> None:
    made = forecast_step(sides(work(group(1))), cluster(1, 1))
    # 10 ms of decoding, 10 + 1 ms of training and 50 ms of optimizer, half a second of weights
    assert made.step_s == pytest.approx(0.010 + 0.011 + 0.05 + 0.5)
    assert made.lag == {0: 1.0}


def test_rollouts_of_no_tokens_leave_the_fixed_costs() -> None:
    for queue in (QueueKnobs(), ahead(1)):
        made = forecast_step(sides(work(group(0, 0))), cluster(1, 1, queue))
        assert made.step_s >= 0.55
        assert made.tokens_per_s == 0


def test_taking_turns_on_shared_devices_needs_no_second_set() -> None:
    made = cluster(4, 4)
    shared = Cluster(rollout=made.rollout, train=made.train, is_colocated=True)
    job = sides(drawn_work(1))
    assert (made.num_devices, shared.num_devices) == (8, 4)
    assert step_seconds(job, made) == step_seconds(job, shared)
