"""Producers and a consumer: closed forms of pipelines, conservation, and lag."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_model_cases import FLAT, PER_TOKEN, ahead, cluster, drawn_work, group, sides, work

from steptune.forecast.cluster.bound import joined_s, least_s
from steptune.forecast.cluster.phases import lag_distribution
from steptune.forecast.cluster.queue import QueueKnobs, QueueRun, run_queue
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.cluster.train_side import TrainKnobs
from steptune.forecast.curve import ForecastError


def queue_run(job: Sides, made: Cluster, *, num_steps: int = 8, num_warmup: int = 6) -> QueueRun:
    own = job.parameters
    return run_queue(
        made.queue,
        (made.rollout, own.rollout),
        (made.train, own.train),
        job.work,
        sync_s=job.still_s(made),
        num_steps=num_steps,
        num_warmup=num_warmup,
        acceptance=own.acceptance,
    )


def flat_run(queue: QueueKnobs, tokens: int, trained: int, sync_s: float = 0.0) -> QueueRun:
    """One replica makes one group of one row: ``tokens`` seconds; training takes ``trained`` hundredths."""
    jobs = work(group(tokens, prompt=trained - tokens))
    one = (RolloutKnobs(num_replicas=1, max_rows=1), FLAT)
    return run_queue(queue, one, (TrainKnobs(num_ranks=1), PER_TOKEN), jobs, sync_s=sync_s, num_steps=5, num_warmup=8)


def test_synchronous_phases_add() -> None:
    # 10 s of tokens, 400 positions of 10 ms, 1 s of weights
    assert flat_run(QueueKnobs(), 10, 400, 1.0).seconds == pytest.approx(10 + 4 + 1)


def test_one_step_off_takes_the_longer_side() -> None:
    assert flat_run(QueueKnobs(schedule="one_step_off"), 10, 400, 1.0).seconds == pytest.approx(10 + 1)
    assert flat_run(QueueKnobs(schedule="one_step_off"), 10, 1400, 1.0).seconds == pytest.approx(14 + 1)


def test_a_two_phase_pipeline_runs_at_the_rate_of_its_slower_phase() -> None:
    run = flat_run(ahead(2), 10, 400)
    # rollout-bound: a row of 10 s at a time; the trainer waits 6 of 10 s
    assert run.seconds == pytest.approx(10)
    assert run.steps[-1].wait_s == pytest.approx(6)
    assert flat_run(ahead(2), 10, 1400).seconds == pytest.approx(14)


def test_a_train_bound_queue_sits_at_its_bound() -> None:
    run = flat_run(ahead(3), 2, 1400)
    assert lag_distribution(run) == {3: 1.0}


def test_a_bound_is_not_a_lag_where_generation_is_slower() -> None:
    # one slot: each group begins when the one before has ended, and is trained about one update later
    assert max(lag_distribution(flat_run(ahead(6), 10, 400))) <= 1


def test_a_larger_buffer_changes_nothing_once_generation_is_the_slower_side() -> None:
    assert flat_run(ahead(1), 10, 400).seconds == flat_run(ahead(5), 10, 400).seconds


def test_a_small_buffer_holds_the_lag_below_the_bound() -> None:
    buffered = QueueKnobs(schedule="async", max_lag=4, max_ahead_groups=2)
    assert max(lag_distribution(flat_run(buffered, 2, 1400))) == 1


def test_asynchronous_can_lose() -> None:
    """Four shared devices beat two and two where one side is nearly all the work."""
    job = sides(drawn_work(3), sync_s=0.0)
    shared = Cluster(
        rollout=RolloutKnobs(num_replicas=4), train=TrainKnobs(num_ranks=4, balance="tokens"), is_colocated=True
    )
    apart = cluster(2, 2, ahead(1))
    heavy = Sides(parameters=job.parameters.scaled(train=6.0), work=job.work)
    assert step_seconds(job, apart) < step_seconds(job, shared)
    assert step_seconds(heavy, apart) > 1.1 * step_seconds(heavy, shared)


@settings(max_examples=15)
@given(seed=st.integers(0, 500), first_done=st.booleans(), lag=st.integers(0, 3), rows=st.sampled_from([2, 5, 50]))
def test_tokens_are_conserved_and_nothing_older_than_the_bound_is_trained(
    seed: int, first_done: bool, lag: int, rows: int
) -> None:
    job = sides(drawn_work(seed))
    run = queue_run(job, cluster(2, 2, ahead(lag, first_done=first_done), max_rows=rows), num_warmup=0)
    assert run.tokens_made == run.tokens_trained + run.tokens_dropped + run.tokens_buffered
    assert run.tokens_buffered >= 0
    assert max(lag_distribution(run)) <= lag


@settings(max_examples=15)
@given(seed=st.integers(0, 500), schedule=st.sampled_from(["sync", "one_step_off"]), replicas=st.integers(1, 4))
def test_joined_sides_equal_the_simulated_queue(seed: int, schedule: str, replicas: int) -> None:
    job = sides(drawn_work(seed))
    made = cluster(replicas, 2, QueueKnobs(schedule=schedule))  # type: ignore[arg-type]
    # counted steps: a whole number of rounds over the two steps of work
    assert queue_run(job, made, num_steps=8, num_warmup=2).seconds == pytest.approx(joined_s(job, made), rel=1e-9)


@settings(max_examples=15)
@given(seed=st.integers(0, 500), first_done=st.booleans(), lag=st.integers(0, 3), replicas=st.integers(1, 5))
def test_a_long_simulation_stays_above_the_bound(seed: int, first_done: bool, lag: int, replicas: int) -> None:
    job = sides(drawn_work(seed))
    made = cluster(replicas, 2, ahead(lag, first_done=first_done), max_rows=8)
    assert queue_run(job, made, num_steps=24, num_warmup=8).seconds >= least_s(job, made) * (1 - 0.02)


@settings(max_examples=12)
@given(seed=st.integers(0, 500), schedule=st.sampled_from(["sync", "one_step_off", "async"]))
def test_every_roles_phases_and_idle_make_the_step(seed: int, schedule: str) -> None:
    job = sides(drawn_work(seed))
    queue = ahead(1) if schedule == "async" else QueueKnobs(schedule=schedule)  # type: ignore[arg-type]
    made = forecast_step(job, cluster(queue=queue))
    assert made.low_s < made.step_s < made.high_s
    for role, idle_s in made.idle.items():
        assert sum(s for (r, _), s in made.phases.items() if r is role) + idle_s == pytest.approx(made.step_s)
        assert idle_s >= -0.15 * made.step_s
    assert sum(made.lag.values()) == pytest.approx(1)


def test_weights_that_wait_for_running_rows_cost_more_than_in_flight_ones() -> None:
    job = sides(drawn_work(5))
    waits = QueueKnobs(schedule="async", max_lag=2, in_flight=False)
    assert queue_run(job, cluster(2, 2, waits)).seconds > queue_run(job, cluster(2, 2, ahead(2))).seconds


def test_dynamic_sampling_makes_what_it_throws_away() -> None:
    kept, half = sides(drawn_work(7)), sides(drawn_work(7), acceptance=0.5)
    made = cluster(1, 4, ahead(1))
    run = queue_run(half, made, num_steps=20)
    assert run.tokens_dropped / run.tokens_made == pytest.approx(0.5, abs=0.1)
    assert run.seconds > 1.5 * queue_run(kept, made, num_steps=20).seconds


def test_the_same_seed_gives_the_same_run() -> None:
    job = sides(drawn_work(7), acceptance=0.6)
    assert queue_run(job, cluster(queue=ahead(2))) == queue_run(job, cluster(queue=ahead(2)))


def test_a_lag_without_async_is_refused() -> None:
    with pytest.raises(ForecastError, match="async"):
        QueueKnobs(schedule="sync", max_lag=1)
