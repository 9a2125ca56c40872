"""One slow replica, one slow rank, an engine that stands still at times: facts of a profile, as ratios and seconds."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_model_cases import ahead, cluster, drawn_work, group, sides, work

from steptune.forecast.cluster.calibrate import MicroBatch, StepTrace, calibrate
from steptune.forecast.cluster.decode import DecodeCurve, DrainPoint, curve_from_drain
from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.train_side import TrainKnobs, train_time
from steptune.forecast.curve import ForecastError

FACTORS = st.floats(1.0, 4.0)
SCHEDULES = st.sampled_from([QueueKnobs(), QueueKnobs(schedule="one_step_off"), ahead(1), ahead(3)])


def slowed(job: Sides, *, replica: tuple[float, ...] = (), rank: tuple[float, ...] = ()) -> Sides:
    """The same job with devices that are slower by these factors."""
    own = job.parameters
    return Sides(
        parameters=replace(
            own, rollout=replace(own.rollout, slowdown=replica), train=replace(own.train, slowdown=rank)
        ),
        work=job.work,
    )


@settings(max_examples=15)
@given(seed=st.integers(0, 500), ranks=st.integers(1, 6), factor=FACTORS)
def test_a_slow_rank_lengthens_training_by_at_most_its_factor(seed: int, ranks: int, factor: float) -> None:
    job, knobs = sides(drawn_work(seed)), TrainKnobs(num_ranks=ranks, balance="tokens", micro_batch_tokens=256)
    groups = job.work.steps[0]
    healthy = train_time(knobs, job.parameters.train, groups)
    slow = train_time(knobs, slowed(job, rank=(factor,)).parameters.train, groups)
    assert healthy.seconds <= slow.seconds * (1 + 1e-9)
    compute_s = healthy.compute_s + healthy.imbalance_s
    assert slow.compute_s + slow.imbalance_s <= factor * compute_s * (1 + 1e-9)
    # the optimizer and the reduction are not its own
    assert (slow.optimizer_s, slow.reduce_s) == (healthy.optimizer_s, healthy.reduce_s)


def test_one_rank_alone_takes_its_factor_and_the_last_of_four_is_waited_for() -> None:
    job = sides(work(*[group(20, 20)] * 4))
    alone = TrainKnobs(num_ranks=1, micro_batch_tokens=40)
    # 4 micro-batches of 10 ms and 40 positions of 1 ms: 0.2 s, three times as long 0.6 s
    assert train_time(alone, slowed(job, rank=(3.0,)).parameters.train, job.work.steps[0]).compute_s == pytest.approx(
        0.6
    )
    four = train_time(replace(alone, num_ranks=4), slowed(job, rank=(1, 1, 1, 3)).parameters.train, job.work.steps[0])
    # three ranks work 0.05 s and wait 0.1 s: mean 0.075 s, the slowest 0.15 s
    assert (four.compute_s, four.imbalance_s) == pytest.approx((0.075, 0.075))


@settings(max_examples=15)
@given(seed=st.integers(0, 500), replicas=st.integers(1, 5), factor=FACTORS, rows=st.sampled_from([None, 3]))
def test_a_slow_replica_lengthens_a_batch_by_at_most_its_factor(
    seed: int, replicas: int, factor: float, rows: int | None
) -> None:
    job, knobs = sides(drawn_work(seed)), RolloutKnobs(num_replicas=replicas, max_rows=rows)
    healthy_s = makespan(knobs, job.parameters.rollout, job.work, step=0).seconds
    slow_s = makespan(knobs, slowed(job, replica=(factor,)).parameters.rollout, job.work, step=0).seconds
    assert healthy_s * (1 - 1e-9) <= slow_s <= factor * healthy_s * (1 + 1e-9)


@settings(max_examples=12)
@given(seed=st.integers(0, 300), queue=SCHEDULES, factor=st.floats(1.2, 4.0))
def test_a_slower_straggler_is_never_faster(seed: int, queue: QueueKnobs, factor: float) -> None:
    job, made = sides(drawn_work(seed)), cluster(queue=queue)
    was_s = step_seconds(slowed(job, replica=(1.1,), rank=(1.1,)), made, num_steps=8)
    for slower in (slowed(job, replica=(factor,), rank=(1.1,)), slowed(job, replica=(1.1,), rank=(factor,))):
        # asynchronous: another order of the groups may win back part of an iteration
        assert step_seconds(slower, made, num_steps=8) >= was_s * 0.99


def test_all_replicas_and_ranks_slow_is_a_slow_cluster() -> None:
    job, made = sides(drawn_work(3), sync_s=0), cluster(3, 2)
    own = job.parameters
    job = Sides(parameters=replace(own, train=replace(own.train, per_update_s=0.0)), work=job.work)
    slow = slowed(job, replica=(2.0,) * 3, rank=(2.0,) * 2)
    assert step_seconds(slow, made) == pytest.approx(2 * step_seconds(job, made))


def test_a_straggler_that_gets_no_group_is_not_waited_for() -> None:
    job, made = sides(work(group(20), group(20))), cluster(3, 1)
    assert step_seconds(slowed(job, replica=(1, 1, 9)), made) == step_seconds(job, made)


def paused(chance: float, pause_s: float) -> list[DrainPoint]:
    """Iterations of 10 ms and 0.1 ms a row, some of which stand still for a while."""
    draw = random.Random(1)
    return [
        DrainPoint(running=n, cached_tokens=0, seconds=0.01 + 1e-4 * n + pause_s * (draw.random() < chance))
        for n in (1, 2, 4, 8, 16, 32, 64)
        for _ in range(400)
    ]


def test_pauses_of_an_engine_are_carried_per_iteration_and_not_per_row() -> None:
    points = paused(0.01, 0.5)
    curve = curve_from_drain(points)
    # one in a hundred for half a second: 5 ms of every iteration; the knots do not see it
    assert curve.stall_s == pytest.approx(0.005, rel=0.25)
    assert curve.seconds[0] == pytest.approx(0.0101)
    assert curve.base_s(64) - curve.base_s(1) == pytest.approx(0.0063, rel=0.05)


@settings(max_examples=15)
@given(chance=st.sampled_from([0.0, 0.01, 0.05]), pause_s=st.floats(0.0, 1.0))
def test_a_drains_own_seconds_are_given_back_pauses_included(chance: float, pause_s: float) -> None:
    points = paused(chance, pause_s)
    curve = curve_from_drain(points)
    assert sum(curve.base_s(round(p.running)) for p in points) == pytest.approx(
        sum(p.seconds for p in points), rel=0.01
    )


def test_a_copy_of_a_curve_with_another_stall_does_not_remember_the_first() -> None:
    curve = DecodeCurve(rows=(1.0, 2.0), seconds=(1.0, 2.0))
    assert (curve.base_s(2), replace(curve, stall_s=0.5).base_s(2), curve.base_s(0)) == (2.0, 2.5, 0.0)


def test_stragglers_of_a_trace_reach_both_sides() -> None:
    trace = StepTrace(
        drain=(DrainPoint(running=1, cached_tokens=0, seconds=0.01),),
        micro_batches=(MicroBatch(positions=100, squared=0, seconds=0.1),),
        replica_slowdown=(1.0, 2.5),
        rank_slowdown=(1.4,),
    )
    made = calibrate(trace)
    assert (made.rollout.slowdown, made.train.slowdown) == ((1.0, 2.5), (1.4,))
    named = {p.name: p.value for p in made.listed if "healthy" in p.name}
    assert named == {"replica 1 over a healthy one": 2.5, "rank 0 over a healthy one": 1.4}


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_no_ratio_is_refused(factor: float) -> None:
    with pytest.raises(ForecastError, match="positive and finite"):
        StepTrace(drain=(), rank_slowdown=(factor,))
