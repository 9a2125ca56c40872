"""Real posts and a synthetic log: what the step model says of other devices, splits and schedules."""

import itertools
import time

import pytest
from ask_cases import log, post

from steptune.core.estimate import Source
from steptune.core.phase import Role
from steptune.forecast.ask.answer import StepAnswer
from steptune.forecast.ask.ask import ask
from steptune.forecast.ask.question import Question

NOISE_FRAC = 0.05
"""Part by which more devices may be forecast slower: whole groups and rows do not always divide evenly."""


@pytest.mark.parametrize("name", ["V22", "V37a", "V37c"])
def test_the_logs_own_configuration_takes_exactly_the_measured_time(name: str) -> None:
    paste = post(name)
    answer = ask(paste, Question())
    assert paste.profile is not None
    assert answer.step_time.value == paste.profile.step_time.value
    assert answer.step_time == paste.profile.step_time
    assert (answer.ratio.value, answer.ratio.source, answer.ratio.low) == (1.0, "measured", None)
    assert answer.lag[0].lag == 0
    assert answer.configuration == answer.measured_configuration


@pytest.mark.parametrize("name", ["V22", "V37a", "V37c"])
def test_the_logs_own_roles_are_what_it_timed_and_not_a_forecast(name: str) -> None:
    answer = ask(post(name), Question())
    profile = post(name).profile
    assert profile is not None
    timed = {(r.role, p.phase): p.seconds for r in profile.roles for p in r.phases if p.kind == "busy"}
    for role in answer.roles:
        assert {role.busy.source, role.idle.source} == {Source.DERIVED}
        assert all(seconds == timed[role.role, phase] for phase, seconds in role.phases.items())
        assert role.busy.value + role.idle.value == pytest.approx(answer.step_time.value)
    assert answer.exposed_wait.source is Source.DERIVED


@pytest.mark.parametrize("name", ["V22", "V37a"])
def test_more_devices_are_never_slower_beyond_the_noise_of_whole_groups(name: str) -> None:
    ratios = [ask(post(name), Question(devices=count)).ratio.value for count in (8, 16, 32, 64)]
    assert all(more <= fewer * (1 + NOISE_FRAC) for fewer, more in itertools.pairwise(ratios))
    assert ratios[0] > ratios[-1]


def test_twice_the_devices_and_twice_the_prompts_keep_the_time() -> None:
    answer = ask(log(), Question(devices=16, changed={"prompts_per_step": 64}))
    assert answer.ratio.value == pytest.approx(1.0, abs=0.06)


def test_more_work_on_the_same_devices_is_slower_and_less_is_faster() -> None:
    more, less = (ask(log(), Question(changed={"group_size": n})).ratio for n in (16, 4))
    assert more.value > 1 > less.value


def test_every_figure_of_the_step_is_an_estimate_of_source_forecast() -> None:
    answer = ask(post("V22"), Question(devices=8))
    figures = [answer.step_time, answer.ratio, answer.exposed_wait, answer.dropped]
    figures += [e for role in answer.roles for e in (role.busy, role.idle, *role.phases.values())]
    assert {e.source for e in figures} == {Source.FORECAST}
    low, high = answer.step_time.low, answer.step_time.high
    assert low is not None
    assert high is not None
    assert low < answer.step_time.value < high
    assert "80 %" in answer.step_time.note


@pytest.mark.parametrize("question", [Question(devices=4), Question(max_lag=1), Question(split=(2, 6), max_lag=2)])
def test_busy_and_idle_of_every_role_make_the_step(question: Question) -> None:
    answer = ask(log(), question)
    for role in answer.roles:
        # a mean over simulated steps: the queue's first and last step may share a group
        assert role.busy.value + role.idle.value == pytest.approx(answer.step_time.value, rel=0.02)
    assert sum(row.share.value for row in answer.lag) == pytest.approx(1.0)


def test_an_asynchronous_schedule_is_at_most_as_late_as_allowed_and_waits_less() -> None:
    turns, ahead = ask(log(), Question(split=(4, 4))), ask(log(), Question(split=(4, 4), max_lag=2))
    assert max(row.lag for row in ahead.lag) <= 2
    assert ahead.ratio.value < turns.ratio.value
    assert ahead.exposed_wait.value < turns.exposed_wait.value


def test_shares_of_lags_near_balance_say_how_far_they_move() -> None:
    shares = [row.share for row in ask(log(), Question(split=(3, 5), max_lag=2)).lag]
    assert all(s.low is not None and s.high is not None and 0 <= s.low <= s.value <= s.high <= 1 for s in shares)
    assert max((s.high or 0) - (s.low or 0) for s in shares) > 0.2
    assert [row.share.low for row in ask(log(), Question(devices=4)).lag] == [None]


def test_the_best_split_is_no_slower_than_any_named_one() -> None:
    best = ask(log(), Question(max_lag=1))
    named = [ask(log(), Question(split=(n, 8 - n), max_lag=1)).ratio.value for n in (2, 4, 6)]
    assert best.configuration.num_devices == 8
    assert best.ratio.value <= min(named) * 1.01


def test_the_fewest_devices_keep_the_step_and_one_device_less_does_not() -> None:
    paste = log(rollout_s=20, train_s=75, step_s=100)
    answer = ask(paste, Question(wants_fewest=True))
    fewest = answer.configuration.num_devices
    assert answer.ratio.value <= 1.02
    assert 4 < fewest <= 8
    assert min(ask(paste, Question(devices=fewest - 1, max_lag=lag)).ratio.value for lag in (None, 1)) > 1.02


def test_a_sweep_ranks_counts_and_ways_to_meet_and_answers_with_the_first() -> None:
    answer = ask(log(), Question(wants_sweep=True))
    ratios = [row.ratio.value for row in answer.ranking]
    assert ratios == sorted(ratios)
    assert answer.ranking[0].configuration == answer.configuration
    assert {row.configuration.schedule for row in answer.ranking} == {"sync", "async"}
    assert len({row.configuration.num_devices for row in answer.ranking}) > 3


def test_an_asynchronous_log_with_both_clocks_is_forecast_from() -> None:
    paste = log(schedule="async", step_s=62, rollout_s=60, train_s=30, held=(4, 4))
    answer = ask(paste, Question(split=(4, 8), max_lag=1, given={"max_lag": 1}))
    assert 0.6 < answer.ratio.value < 0.97  # generation decides that step; twice its devices, half the rows on each
    same = ask(paste, Question(given={"max_lag": 1}))
    assert same.step_time.value == 62
    said = next(note for note in answer.notes if "the model's own step" in note)
    assert 0.9 < float(said.split(" is ")[1].split(" x ")[0]) < 1.1


def test_measured_parameters_carry_the_line_they_stand_on() -> None:
    answer = ask(post("V22"), Question(devices=8))
    generation = next(p for p in answer.parameters if p.name == "generation")
    assert [(o.line, o.key) for o in generation.origins] == [(8, "timing_s/gen")]
    assert generation.value.source is Source.MEASURED
    assert answer.num_free_parameters == 3  # generation, training, everything else: nothing printed weights or switches
    exponent = next(p for p in answer.parameters if "exponent" in p.name)
    assert exponent.value.source is Source.PUBLISHED
    assert exponent.where.startswith("https://")


def test_what_is_not_stated_is_named_with_its_price_and_its_remedy() -> None:
    answer = ask(post("V22"), Question(devices=8))
    size = next(u for u in answer.unknown if u.what == "group_size")
    assert size.moves is not None
    assert size.moves.value > 0
    assert "--given group_size=N" in size.narrow


def test_a_stated_fact_narrows_the_interval() -> None:
    def width(answer: StepAnswer) -> float:
        assert answer.ratio.low is not None
        assert answer.ratio.high is not None
        return answer.ratio.high / answer.ratio.low

    open_, stated = (
        ask(post("K07"), Question(measured_devices=8, devices=4, given=given))
        for given in ({}, {"completion_mean": 800, "completion_max": 2048, "clipped_frac": 0.01})
    )
    assert {u.what for u in stated.unknown} < {u.what for u in open_.unknown}
    assert width(stated) <= width(open_)


def test_a_role_that_is_idle_is_the_one_that_waits() -> None:
    answer = ask(log(rollout_s=80, train_s=10), Question(split=(4, 4), max_lag=1))
    idle = {role.role: role.idle.value for role in answer.roles}
    assert idle[Role.TRAINER] > idle[Role.ROLLOUT]
    assert answer.exposed_wait.value == idle[Role.TRAINER]


@pytest.mark.parametrize("question", [Question(devices=8), Question(max_lag=4)])
def test_one_question_about_a_large_batch_takes_less_than_two_cpu_seconds(question: Question) -> None:
    # 256 prompts of 5 rollouts, every price and prior asked again; a count of simulated rows in CPU seconds
    paste = post("V37a")
    before_s = time.process_time()
    ask(paste, question)
    assert time.process_time() - before_s < 2
