"""What another profile would have said: lengths, pauses and updates are drawn again; lags carry their interval."""

import math
from dataclasses import replace
from statistics import stdev

import pytest
from step_model_cases import ahead, cluster, drawn_work, group, sides, work

from steptune.core.profile import SampledLengths
from steptune.forecast.cluster.calibrate import mean_log_sd
from steptune.forecast.cluster.decode import DrainPoint, curve_from_drain
from steptune.forecast.cluster.lag import TOLD_Z, lag_forecast
from steptune.forecast.cluster.lengths import work_from_samples
from steptune.forecast.cluster.ratio import forecast_ratio
from steptune.forecast.cluster.resample import Answer, answers, other_profiles
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import MODEL_LOG_SD
from steptune.forecast.cluster.work import GroupShape, RowShape, Wait, Work, extended
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Z_80


def logged(num_steps: int, seed: int = 1) -> Work:
    """Work that a profile of so many steps logged."""
    made = drawn_work(seed, num_steps=num_steps)
    return replace(made, num_logged_groups=num_steps * made.groups_per_step)


def steady(share: float, *, steps: int = 16) -> Answer:
    """A run in which every step trains this part at lag 1, the rest at lag 0."""
    return Answer(seconds=1.0, rows_by_lag=({0: round(100 * (1 - share)), 1: round(100 * share)},) * steps)


def test_lengths_logged_per_sample_are_known_to_be_a_draw() -> None:
    lengths = SampledLengths(prompt=(4,) * 12, completion=tuple(range(1, 13)), rollouts_per_step=4)
    made = work_from_samples(lengths, group_size=2)
    assert made.num_logged_groups == 6
    # reshuffled steps behind them are no further draw
    longer = extended(made, 9, seed=0)
    assert longer.logged_groups == made.logged_groups
    assert len(longer.steps) == 9


def test_other_profiles_hold_whole_groups_of_this_one_and_depend_on_the_seed_alone() -> None:
    own = logged(3)
    made = other_profiles(own, num=4, seed=5)
    assert made == other_profiles(own, num=4, seed=5) != other_profiles(own, num=4, seed=6)
    assert all(len(other.groups) == 18 and set(other.groups) <= set(own.logged_groups) for other in made)
    assert sorted(other.train_z for other in made) == pytest.approx([-1.150, -0.319, 0.319, 1.150], abs=1e-3)


def test_a_longer_profile_leaves_less_open() -> None:
    few, many = (sides(logged(n, seed=4)) for n in (2, 24))
    asked = cluster(2, 2, ahead(2))
    wide, narrow = (forecast_ratio(job, cluster(2, 2), asked) for job in (few, many))
    assert wide.high / wide.low > narrow.high / narrow.low > 1


def test_prompts_that_lengthen_both_steps_alike_are_not_in_the_ratio() -> None:
    job = sides(logged(2))
    others = other_profiles(job.work)
    base, own = (answers(job, others, cluster(2, ranks)) for ranks in (2, 3))
    steps, ratios = (
        [math.log(a.seconds) for a in own],
        [math.log(a.seconds / b.seconds) for a, b in zip(own, base, strict=True)],
    )
    assert stdev(ratios) < stdev(steps) / 2


def test_a_job_whose_prompts_and_prices_are_all_sure_leaves_nothing_open() -> None:
    alike = work(*[group(20, 20, prompt=4)] * 6, num_steps=3)
    own = sides(alike).parameters
    sure = replace(own, rollout_log_sd=0.0, train_log_sd=0.0, sync_log_sd=0.0)
    job = Sides(parameters=sure, work=replace(alike, num_logged_groups=18))
    others = other_profiles(job.work, num=3)
    for asked in (cluster(2, 2), cluster(2, 2, ahead(2))):
        assert len({answer.seconds for answer in answers(job, others, asked)}) == 1
    made = lag_forecast(answers(job, others, cluster(2, 2, ahead(2))), num_groups=18)
    assert max(made.profile_sd.values()) == 0
    ratio = forecast_ratio(job, cluster(2, 2), cluster(2, 2, ahead(2)))
    assert ratio.high / ratio.mid == pytest.approx(math.exp(Z_80 * MODEL_LOG_SD))


@pytest.mark.parametrize("tokens", [0, 1])
def test_one_sequence_on_one_device_a_side_and_rollouts_of_no_tokens_are_answered(tokens: int) -> None:
    own = work(group(tokens), num_steps=2)
    job = sides(replace(own, num_logged_groups=2))
    ratio = forecast_ratio(job, cluster(1, 1), cluster(1, 1, ahead(1)))
    assert 0 < ratio.low <= ratio.mid <= ratio.high
    made = lag_forecast(answers(job, other_profiles(job.work, num=2), cluster(1, 1, ahead(1))), num_groups=2)
    assert sum(share.mid for share in made.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("factor", [2.0, 1000.0])
def test_another_unit_of_time_moves_neither_ratio_nor_lag(factor: float) -> None:
    job = sides(logged(3))
    other = Sides(parameters=job.parameters.scaled(rollout=factor, train=factor, sync=factor), work=job.work)
    asked = cluster(3, 2, ahead(2))
    one, two = (forecast_ratio(own, cluster(2, 2), asked) for own in (job, other))
    assert (two.low, two.mid, two.high) == pytest.approx((one.low, one.mid, one.high), rel=1e-6)
    lags = [lag_forecast(answers(own, other_profiles(own.work, num=3), asked), num_groups=18) for own in (job, other)]
    assert lags[0].shares.keys() == lags[1].shares.keys()
    assert [s.mid for s in lags[0].shares.values()] == pytest.approx([s.mid for s in lags[1].shares.values()], abs=0.02)


def test_a_second_pause_or_none_is_a_wider_step() -> None:
    job = sides(logged(2))
    rollout = job.parameters.rollout
    decode = replace(rollout.decode, stall_s=0.01, stall_log_sd=1.0)
    paused = Sides(parameters=replace(job.parameters, rollout=replace(rollout, decode=decode)), work=job.work)
    sure = Sides(
        parameters=replace(job.parameters, rollout=replace(rollout, decode=replace(decode, stall_log_sd=0.0))),
        work=job.work,
    )
    wide, narrow = (
        stdev(math.log(a.seconds) for a in answers(own, other_profiles(own.work), cluster(2, 2)))
        for own in (paused, sure)
    )
    assert wide > 1.2 * narrow


def test_waits_have_a_tail_that_a_short_profile_did_not_draw_unless_all_are_alike() -> None:
    def waiting(*seconds: float) -> Work:
        rows = tuple(RowShape(tokens=20, waits=(Wait(at_token=5, seconds=s),)) for s in seconds)
        steps = ((GroupShape(prompt=4, rows=rows),),) * 2
        return Work(steps=steps, max_completion=20, num_logged_groups=2)

    def drawn(own: Work) -> list[float]:
        made = other_profiles(own)
        return [w.seconds for other in made for g in other.groups for row in g.rows for w in row.waits]

    long_tailed = [math.exp(x / 4) for x in range(-4, 5)]
    seconds = drawn(waiting(*long_tailed))
    assert max(seconds) > max(long_tailed)
    # half of them are the logged ones
    assert 0.35 < sum(s in set(long_tailed) for s in seconds) / len(seconds) < 0.65
    assert set(drawn(waiting(*[3.0] * 9))) == {3.0}
    assert set(drawn(waiting(1.0, 2.0))) == {1.0, 2.0}


def test_two_runs_meet_other_updates_so_jitter_does_not_cancel_in_a_ratio() -> None:
    def spread(update_log_sd: float) -> float:
        made = sides(logged(2))
        train = replace(made.parameters.train, per_update_s=0.5)
        own = replace(made.parameters, train=train, update_log_sd=update_log_sd)
        job = Sides(parameters=own, work=made.work)
        others = other_profiles(job.work)
        base, asked = (answers(job, others, cluster(2, ranks)) for ranks in (2, 3))
        assert base == answers(job, others, cluster(2, 2))
        return stdev(math.log(a.seconds / b.seconds) for a, b in zip(asked, base, strict=True))

    assert spread(0.5) > 2 * spread(0.0)


def test_the_mean_of_a_few_long_tailed_spans_is_known_by_the_spread_of_their_logs() -> None:
    # logs 0 and 1: variance 1/2, so sqrt((e^0.5 - 1) / 2)
    assert mean_log_sd([1.0, math.e]) == pytest.approx(math.sqrt(math.expm1(0.5) / 2))
    assert mean_log_sd([1.0, math.e] * 8) < mean_log_sd([1.0, math.e])
    assert mean_log_sd([2.0]) == mean_log_sd([]) == mean_log_sd([3.0] * 4) == 0


def test_one_pause_in_a_profile_may_as_well_have_been_none_or_two() -> None:
    calm = [DrainPoint(running=4, cached_tokens=0, seconds=0.01)] * 99
    pause = DrainPoint(running=4, cached_tokens=0, seconds=1.01)
    once, often = curve_from_drain([*calm, pause]), curve_from_drain([*calm * 16, *[pause] * 16])
    assert once.stall_s == pytest.approx(often.stall_s)
    # Poisson: 1 over the root of how many were seen
    assert (once.stall_log_sd, often.stall_log_sd) == pytest.approx((1, 1 / 4), rel=0.02)
    assert curve_from_drain(calm).stall_log_sd == 0


def test_what_profiles_differ_in_shrinks_with_their_length_and_the_sentence_says_how_long() -> None:
    made = lag_forecast([steady(s) for s in (0.3, 0.4, 0.5)], num_groups=128)
    assert made.run_sd == {0: 0, 1: 0}
    assert made.profile_sd[1] == pytest.approx(0.1)
    assert made.shares[1].mid == pytest.approx(0.4)
    assert made.shares[1].high - made.shares[1].mid == pytest.approx(Z_80 * 0.1)
    assert made.half_width == pytest.approx(TOLD_Z * 0.1)
    # 128 groups x (1.96 x 0.1 / 0.05)^2 = 1967 groups; 1839 more are 115 steps of 16
    assert made.groups_needed(0.05) == 1967
    assert (
        made.said(16)
        == "P(lag) is known to 0.20 (95 %) from 128 groups: cannot tell within 0.05; profile 115 more steps"
    )
    assert made.said(16, within=0.2) == "P(lag) is known to 0.20 (95 %) from 128 groups"


def test_a_run_that_wanders_by_itself_is_not_helped_by_a_longer_profile() -> None:
    steps = tuple({0: 100} for _ in range(8)) + tuple({1: 100} for _ in range(8))
    made = lag_forecast([Answer(seconds=1.0, rows_by_lag=steps)] * 3, num_groups=128)
    # two stretches, 0 and 1: variance 1/2 over 2
    assert made.run_sd[0] == pytest.approx(0.5)
    assert made.profile_sd == {0: 0, 1: 0}
    assert made.groups_needed() == 0
    assert made.said(16).endswith("runs of this length differ by 0.98 themselves")
    assert (made.shares[0].low, made.shares[0].high) == (0, 1)


@pytest.mark.parametrize("made", [[steady(0.5)], [steady(0.5, steps=12)] * 2, [Answer(seconds=1.0)] * 2])
def test_lags_of_too_few_or_too_short_runs_are_refused(made: list[Answer]) -> None:
    with pytest.raises(ForecastError, match="needs simulated queues"):
        lag_forecast(made, num_groups=8)


def test_a_starved_trainer_trains_what_is_fresh_and_a_starved_rollout_what_is_old() -> None:
    job = sides(logged(4))
    others = other_profiles(job.work, num=3)
    slow_rollout, slow_trainer = (
        lag_forecast(answers(job, others, asked), num_groups=24)
        for asked in (cluster(1, 6, ahead(2), max_rows=4), cluster(6, 1, ahead(2)))
    )
    assert slow_trainer.shares[2].mid > 0.9
    assert slow_rollout.mean < slow_trainer.mean - 0.1
    assert all(0 <= i.low <= i.mid <= i.high <= 1 for f in (slow_rollout, slow_trainer) for i in f.shares.values())
