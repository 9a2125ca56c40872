"""A ranked sweep loses no optimum, and device counts can be asked backwards."""

from dataclasses import replace

import pytest
from step_model_cases import ahead, cluster, drawn_work, sides

from steptune.forecast.cluster.device_counts import best_split, fewest_devices
from steptune.forecast.cluster.join import Join
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.sweep import SWEEP_STEPS, Space, sweep
from steptune.forecast.cluster.train_side import TrainKnobs

QUEUES = (
    QueueKnobs(),
    QueueKnobs(schedule="one_step_off"),
    ahead(0),
    ahead(1),
    ahead(3),
    ahead(1, first_done=True),
    ahead(3, first_done=True),
)


def splits(sizes: range, **more: int) -> tuple[tuple[RolloutKnobs, ...], tuple[TrainKnobs, ...]]:
    rollouts = [RolloutKnobs(num_replicas=n, **more) for n in sizes]
    return tuple(rollouts), tuple(TrainKnobs(num_ranks=n, balance="tokens") for n in sizes)


def three_spaces() -> list[tuple[Sides, Space]]:
    """Rollout-bound with a small cache, train-bound with slow weights, balanced with shared devices allowed."""
    small, ranks = splits(range(1, 4), kv_tokens=300)
    rows = tuple(replace(r, max_rows=n) for r in small for n in (2, 6))
    heavy = sides(drawn_work(2), sync_s=2.0)
    own, trains = splits(range(1, 5))
    return [
        (sides(drawn_work(1, median=60)), Space(rollouts=rows, trains=ranks, queues=QUEUES, max_devices=5)),
        (
            Sides(parameters=heavy.parameters.scaled(train=5.0), work=heavy.work),
            Space(rollouts=own, trains=trains, queues=QUEUES, max_devices=7),
        ),
        (
            sides(drawn_work(3)),
            Space(rollouts=own, trains=trains, queues=QUEUES, max_devices=4, placements=(False, True)),
        ),
    ]


@pytest.mark.parametrize("which", range(3))
def test_pruning_loses_no_optimum(which: int) -> None:
    job, space = three_spaces()[which]
    found = sweep(job, space, simulate_at_most=1000)
    best = min(step_seconds(job, c, num_steps=SWEEP_STEPS) for c in space.clusters())
    assert found.is_proven
    assert found.ranked[0].is_known
    assert found.ranked[0].cost == pytest.approx(best, rel=1e-12)
    assert found.num_simulated < sum(c.queue.schedule == "async" for c in space.clusters())


def test_no_simulated_step_lies_below_its_bound() -> None:
    for job, space in three_spaces():
        join = Join(sides=job)
        for made in list(space.clusters())[::7]:
            assert step_seconds(job, made, num_steps=SWEEP_STEPS) >= join.least_s(made) * (1 - 1e-12)


def test_a_sweep_cut_short_says_that_nothing_is_proven() -> None:
    job, space = three_spaces()[0]
    found = sweep(job, space, simulate_at_most=1)
    assert not found.is_proven
    assert found.num_simulated == 1
    assert len(found.ranked) == len(list(space.clusters()))


def test_candidates_that_cannot_hold_the_longest_row_are_counted_and_left_out() -> None:
    job, space = three_spaces()[0]
    tight = replace(space, rollouts=(*space.rollouts, RolloutKnobs(num_replicas=1, kv_tokens=50)))
    found = sweep(job, tight, simulate_at_most=5)
    assert found.num_refused > 0
    assert all(p.cluster.rollout.kv_tokens != 50 for p in found.ranked)


def test_device_seconds_prefer_fewer_devices_than_step_time() -> None:
    job, space = three_spaces()[2]
    fast = sweep(job, space).ranked[0].cluster
    cheap = sweep(job, space, objective="device_seconds").ranked[0].cluster
    assert cheap.num_devices < fast.num_devices


def test_shared_devices_go_with_turns_only() -> None:
    _, space = three_spaces()[2]
    assert {c.queue.schedule for c in space.clusters() if c.is_colocated} == {"sync"}


def test_the_fewest_devices_that_keep_a_step_time_are_found() -> None:
    job = sides(drawn_work(4))
    like = cluster(6, 4, ahead(1))
    step_s = step_seconds(job, like)
    answer = fewest_devices(job, like, step_s=step_s, counts=range(2, 11))
    assert answer is not None
    assert answer.cluster.num_devices <= 10
    assert answer.step_s <= step_s * 1.02
    fewer = best_split(job, like, answer.cluster.num_devices - 1)
    assert fewer is None or fewer.step_s > step_s * 1.02


def test_no_count_of_devices_keeps_an_impossible_step_time() -> None:
    assert fewest_devices(sides(drawn_work(4)), cluster(2, 2), step_s=1e-6, counts=range(2, 6)) is None


def test_a_split_of_devices_into_whole_replicas_is_refused_where_there_is_none() -> None:
    like = replace(cluster(2, 2), rollout=RolloutKnobs(num_replicas=2, devices_per_replica=8))
    assert best_split(sides(drawn_work(4)), like, 7) is None


def test_more_devices_of_both_sides_never_lengthen_a_balanced_step() -> None:
    job = sides(drawn_work(6))
    seconds = [best.step_s for n in (4, 6, 8) if (best := best_split(job, cluster(2, 2, ahead(2)), n)) is not None]
    assert seconds == sorted(seconds, reverse=True)
