"""A log becomes prices: the decode curve off a drain, lengths of every kind, rounds of sampling, totals."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_model_cases import ahead, cluster, drawn_work, sides

from steptune.core.estimate import Source
from steptune.core.profile import SampledLengths, SummaryLengths
from steptune.forecast.cluster.acceptance import at_least, expected_rounds, groups_made, round_distribution
from steptune.forecast.cluster.calibrate import MicroBatch, StepTrace, calibrate, fit_train, line, slowdowns
from steptune.forecast.cluster.decode import DecodeCurve, DrainPoint, curve_from_drain
from steptune.forecast.cluster.lengths import (
    Quantiles,
    quantiles_from_summary,
    work_from_quantiles,
    work_from_samples,
    work_from_summary,
)
from steptune.forecast.cluster.parameters import parameter_table
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.cluster.totals import Totals, parameters_from_totals
from steptune.forecast.cluster.work import RowShape, Wait, check_waits, extended
from steptune.forecast.curve import ForecastError


def drain(noise: float, per_cached: float = 0.0) -> list[DrainPoint]:
    """A batch of 64 rows that ends one by one: 10 ms and 0.1 ms a row, and the cache on top."""
    draw, cached, points = random.Random(0), 64 * 100.0, list[DrainPoint]()
    for running in range(64, 0, -1):
        for _ in range(12):
            seconds = (0.010 + 1e-4 * running + per_cached * cached) * draw.lognormvariate(0, noise)
            points.append(DrainPoint(running=running, cached_tokens=cached, seconds=seconds))
            cached += running
        cached -= cached / running
    return points


@pytest.mark.parametrize("running", [1, 2, 7, 30, 64])
def test_a_drain_gives_the_curve_back(running: int) -> None:
    curve = curve_from_drain(drain(0.05))
    assert curve.base_s(running) == pytest.approx(0.010 + 1e-4 * running, rel=0.03)


def test_rows_beyond_the_batch_follow_the_curves_upper_part() -> None:
    assert curve_from_drain(drain(0.05)).base_s(128) == pytest.approx(0.0228, rel=0.08)


def test_the_caches_share_is_told_apart_from_the_rows() -> None:
    curve = curve_from_drain(drain(0.01, per_cached=5e-7))
    assert curve.per_cached_token_s == pytest.approx(5e-7, rel=0.15)
    assert curve_from_drain(drain(0.05)).per_cached_token_s == 0


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 200), st.floats(1e-4, 1.0)), min_size=1, max_size=60))
def test_no_curve_ever_falls_with_rows(points: list[tuple[int, float]]) -> None:
    curve = curve_from_drain([DrainPoint(running=n, cached_tokens=0, seconds=s) for n, s in points])
    seconds = [curve.base_s(n) for n in range(1, 260, 3)]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(seconds))


def test_an_empty_drain_says_what_to_log() -> None:
    with pytest.raises(ForecastError, match="log running rows"):
        curve_from_drain([DrainPoint(running=0, cached_tokens=0, seconds=1)])


def test_a_curve_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ForecastError, match="decode curve"):
        DecodeCurve(rows=(1,), seconds=(float("nan"),))


def test_a_line_is_fitted_and_never_negative() -> None:
    assert line([(1, 3.0), (2, 5.0), (3, 7.0)]) == (pytest.approx(1), pytest.approx(2))
    assert line([(1, 0.5), (2, 2.0), (3, 3.0)])[0] == 0
    assert line([]) == (0, 0)


def test_squares_are_kept_only_where_they_explain_something() -> None:
    draw = random.Random(1)
    sizes = [(draw.uniform(100, 4000), draw.uniform(10, 2000)) for _ in range(40)]
    straight = [MicroBatch(positions=p, squared=p * r, seconds=0.02 + 1e-4 * p) for p, r in sizes]
    bent = [MicroBatch(positions=p, squared=p * r, seconds=0.02 + 1e-4 * p + 5e-8 * p * r) for p, r in sizes]
    assert fit_train(straight).per_token_squared_s == pytest.approx(0, abs=1e-12)
    assert fit_train(bent).per_token_squared_s == pytest.approx(5e-8, rel=0.01)
    assert fit_train(bent).per_micro_batch_s == pytest.approx(0.02, rel=0.05)


def test_a_straggler_stands_out_and_noise_does_not() -> None:
    assert slowdowns([3.0, 1.02, 0.98, 1.0], [1.0] * 4)[0] == pytest.approx(3 / 1.01, rel=0.01)
    assert slowdowns([3.0, 1.02, 0.98, 1.0], [1.0] * 4)[1:] == (1, 1, 1)


def test_every_parameter_is_listed_with_its_source_and_counted() -> None:
    trace = StepTrace(
        drain=tuple(drain(0.02)),
        prefills=((100, 0.012), (200, 0.022)),
        micro_batches=(
            MicroBatch(positions=100, squared=0, seconds=0.2),
            MicroBatch(positions=300, squared=0, seconds=0.4),
        ),
        num_ranks=4,
        reduce_s=0.3,
        sync_s=0.5,
        update_s=0.1,
    )
    made = calibrate(trace)
    assert made.num_free == len(made.rollout.decode.rows) + 2 + 2 + 3
    assert made.train.reduce_bytes * 1.5 == pytest.approx(0.3)
    assert parameter_table(made.listed).endswith(f"{made.num_free} free parameters, 3 priors")


def test_training_without_a_micro_batch_is_refused() -> None:
    with pytest.raises(ForecastError, match="phase totals"):
        calibrate(StepTrace(drain=tuple(drain(0.02))))


def test_totals_are_met_where_they_were_measured_and_prior_elsewhere() -> None:
    job, shared = drawn_work(1), cluster(4, 4)
    made = parameters_from_totals(job, shared, Totals(rollout_s=10, train_s=8, sync_s=1))
    made_sides = Sides(parameters=made, work=job)
    assert step_seconds(made_sides, shared) == pytest.approx(19)
    half = cluster(4, 2)
    # half the devices within one mode: 2 ** 0.68, not 2
    assert made_sides.train_s(half.train, is_colocated=False) == pytest.approx(8 * 2**0.68, rel=0.15)
    assert made.num_free == 3
    assert any(p.source is Source.PUBLISHED for p in made.listed)


def test_a_forecast_from_totals_is_less_sure_than_one_from_spans_where_devices_move() -> None:
    job = drawn_work(1)
    made = parameters_from_totals(job, cluster(4, 4), Totals(rollout_s=3, train_s=8))
    same, moved = (forecast_step(Sides(parameters=made, work=job), c) for c in (cluster(4, 4), cluster(4, 2)))
    assert moved.high_s / moved.low_s > 1.2 * same.high_s / same.low_s


def test_an_exposed_wait_cannot_pass_as_generation() -> None:
    with pytest.raises(ForecastError, match="exposed wait"):
        parameters_from_totals(drawn_work(1), cluster(), Totals(rollout_s=0, train_s=8))


def test_sampled_lengths_are_replayed_group_by_group() -> None:
    lengths = SampledLengths(prompt=(5, 5, 7, 7), completion=(1, 2, 3, 4), rollouts_per_step=4)
    made = work_from_samples(lengths, group_size=2)
    assert [(g.prompt, [r.tokens for r in g.rows]) for g in made.steps[0]] == [(5, [1, 2]), (7, [3, 4])]
    with pytest.raises(ForecastError, match="whole steps"):
        work_from_samples(lengths, group_size=3)


def test_quantiles_are_drawn_within_their_range_and_by_seed() -> None:
    quantiles = Quantiles(fracs=(0, 0.5, 1), tokens=(10, 100, 400))
    made = [
        work_from_quantiles(quantiles, prompt=4, groups_per_step=8, group_size=8, num_steps=4, seed=s)
        for s in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]
    rows = sorted(r.tokens for step in made[0].steps for g in step for r in g.rows)
    assert rows[0] >= 10
    assert rows[-1] <= 400
    assert rows[len(rows) // 2] == pytest.approx(100, rel=0.3)


def test_a_summary_keeps_its_mean_maximum_and_clipping_and_widens_the_interval() -> None:
    summary = SummaryLengths(prompt_mean=30, completion_mean=900, completion_max=4096, clipped_frac=0.05)
    quantiles = quantiles_from_summary(summary, limit=None)
    assert quantiles.at(0.97) == 4096
    made = work_from_summary(summary, groups_per_step=32, group_size=8, limit=None, num_steps=8, seed=0)
    rows = [r.tokens for step in made.steps for g in step for r in g.rows]
    assert sum(rows) / len(rows) == pytest.approx(900, rel=0.1)
    drawn = work_from_quantiles(quantiles, prompt=30, groups_per_step=2, group_size=2, num_steps=1, seed=0)
    assert made.length_log_sd > drawn.length_log_sd > drawn_work(1).length_log_sd


def test_a_summary_without_a_mean_is_refused() -> None:
    with pytest.raises(ForecastError, match="per sample"):
        quantiles_from_summary(SummaryLengths(completion_max=100), limit=None)


def test_two_of_four_coins() -> None:
    assert at_least(4, 0.5, 2) == pytest.approx(11 / 16)


def test_accepting_everything_is_one_round() -> None:
    assert round_distribution(8, 1.0, 5)[0] == 1
    assert expected_rounds(8, 1.0, 5) == 1


def test_half_accepted_is_more_than_two_rounds() -> None:
    chances = round_distribution(16, 0.5, 10)
    assert sum(chances) == pytest.approx(1)
    # P(Binomial(32, 1/2) >= 16) = 0.57 is done after two
    assert chances[0] + chances[1] == pytest.approx(0.57, abs=0.01)
    assert expected_rounds(16, 0.5, 10) > 2.3 > groups_made(16, 0.5) / 16


def test_a_job_that_accepts_nothing_is_refused() -> None:
    with pytest.raises(ForecastError, match="does not learn"):
        round_distribution(8, 0.0, 5)


def test_rounds_lengthen_the_synchronous_step() -> None:
    whole = step_seconds(sides(drawn_work(2)), cluster())
    assert step_seconds(sides(drawn_work(2), acceptance=0.5, max_rounds=10), cluster()) > 1.5 * whole


def test_steps_beyond_the_profile_are_its_groups_in_other_company() -> None:
    job = drawn_work(5)
    more = extended(job, 6, seed=3)
    assert more.steps[:2] == job.steps
    assert len(more.steps) == 6
    assert more.steps[2] != job.steps[0]
    key = [g.num_tokens for step in job.steps for g in step]
    assert sorted(g.num_tokens for step in more.steps[2:4] for g in step) == sorted(key)
    assert extended(job, 6, seed=3) == more


def test_waits_outside_their_row_are_refused() -> None:
    with pytest.raises(ForecastError, match="outside"):
        check_waits([RowShape(tokens=3, waits=(Wait(at_token=3, seconds=1.0),))])


def test_an_asynchronous_forecast_knows_its_lag() -> None:
    made = parameters_from_totals(drawn_work(1), cluster(2, 2), Totals(rollout_s=1, train_s=20))
    assert forecast_step(Sides(parameters=made, work=drawn_work(1)), cluster(2, 2, ahead(2))).mean_lag == 2
