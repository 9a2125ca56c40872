import math

import pytest
from score_rows import JOB, row

from steptune.published.async_losers import async_losers
from steptune.published.public_run import PublicRun, public_runs
from steptune.score.choice import choices, order
from steptune.score.groups import scored_groups
from steptune.score.model import TRIVIAL_ARMS, NoChange
from steptune.score.noise import noise_lines
from steptune.score.signs import TRIVIAL_SIGNS, async_pairs, score_signs, sign_of

GROUPS = scored_groups(JOB)


class Scaled:
    """Forecasts the measured row's time, times a factor by id."""

    name = "scaled"

    def __init__(self, **factors: float) -> None:
        self._factors = factors

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        if measured is None or measured.step_time_s is None:
            return None
        return measured.step_time_s * self._factors.get(run.id, 1.0) / self._factors.get(measured.id, 1.0)


KNOWS = Scaled(tp1=0.8, overlapped=0.5)
WRONG = Scaled(tp1=2.0, overlapped=3.0)


def test_who_knows_the_times_has_no_regret() -> None:
    found = choices(KNOWS, GROUPS)
    assert (found.regret_frac, found.mean_rank, found.num_choices) == (0, 1, 3)


def test_who_believes_the_opposite_pays_for_it() -> None:
    # always picks `base`: 100 / 50 - 1
    assert choices(WRONG, GROUPS).regret_frac == pytest.approx(1.0)


def test_no_opinion_costs_as_much_as_a_random_pick() -> None:
    found = choices(NoChange(), GROUPS)
    # a mean of 76.7 s against the best of 50 s
    assert found.regret_frac == pytest.approx(found.random_regret_frac)
    assert found.random_regret_frac == pytest.approx(230 / 150 - 1)


def test_rows_on_other_devices_are_no_choice() -> None:
    groups = scored_groups([JOB[0], row("wide", 50.0, n_gpus=16, gpus_train=16)])
    assert choices(KNOWS, groups).num_choices == 0


def test_order_counts_no_opinion_half() -> None:
    assert order(KNOWS, GROUPS).right_frac == 1
    assert order(WRONG, GROUPS).right_frac == 0
    assert order(NoChange(), GROUPS).right_frac == 0.5


def test_overlapped_rows_are_paired_with_synchronous_ones_on_as_many_devices() -> None:
    pairs = async_pairs(GROUPS, [])
    assert {(pair.sync.id, pair.overlapped.id) for pair in pairs} == {("base", "overlapped"), ("tp1", "overlapped")}
    assert all(pair.is_faster for pair in pairs)


def test_another_release_makes_no_pair() -> None:
    later = row("later", 50.0, placement="disaggregated", gpus_train=4, async_lag="1", version="2")
    assert async_pairs(scored_groups([JOB[0], later]), []) == ()


def test_a_tie_is_not_faster() -> None:
    tie = row("tie", 99.0, placement="disaggregated", gpus_train=4, async_lag="1")
    (pair,) = async_pairs(scored_groups([JOB[0], tie]), [])
    assert not pair.is_faster


def test_always_yes_has_a_balanced_accuracy_of_one_half_however_many_win() -> None:
    pairs = async_pairs(scored_groups(public_runs()), async_losers())
    for _, call in TRIVIAL_SIGNS:
        assert score_signs(call, pairs).balanced_frac == 0.5


def test_a_refused_sign_counts_as_wrong() -> None:
    signs = score_signs(lambda pair: None, async_pairs(GROUPS, async_losers()))
    assert signs.balanced_frac == 0
    assert signs.num_refused == signs.num_faster + signs.num_others


def test_a_step_model_calls_faster_only_beyond_the_noise() -> None:
    (pair, *_) = async_pairs(GROUPS, [])
    assert sign_of(Scaled(overlapped=0.9))(pair) is True
    assert sign_of(Scaled(overlapped=0.99))(pair) is False


def test_losers_that_stand_in_the_table_are_not_counted_twice() -> None:
    pairs = async_pairs(scored_groups(public_runs()), async_losers())
    named = [frozenset((pair.sync.id, pair.overlapped.id)) for pair in pairs]
    assert len(set(named)) == len(named)
    assert sum(not pair.is_faster for pair in pairs) >= 10


def test_what_a_losing_post_states_reaches_the_model() -> None:
    pairs = {pair.name: pair for pair in async_pairs([], async_losers())}
    pair = pairs["verl-fully-async-16-h20"]
    assert (pair.sync.prompts_per_step, pair.overlapped.prompts_per_step) == (512, 512)
    assert (pair.sync.gpus_train, pair.overlapped.gpus_train, pair.overlapped.gpus_rollout) == (16, 8, 8)
    assert pair.sync.step_time_s == pytest.approx(484.6)


def test_every_trivial_arm_answers_from_one_measured_row() -> None:
    for arm in TRIVIAL_ARMS:
        answer = arm.step_s(JOB[2], measured=JOB[0])
        assert answer is not None
        assert math.isfinite(answer)


def test_the_noise_of_publishing_is_what_the_table_says() -> None:
    repeat, site, release = noise_lines(public_runs())
    assert repeat.num_pairs >= 10
    assert repeat.worst_frac == pytest.approx(0.0861, abs=0.001)  # 429 against 395 s, one recipe, one release
    assert site.num_pairs == 2
    assert release.num_pairs > 10


def test_single_steps_of_a_run_are_no_noise_between_runs() -> None:
    steps = [row("s1", 100.0, steps_averaged="1"), row("s2", 120.0, steps_averaged="1")]
    assert [line.num_pairs for line in noise_lines(steps)] == [0, 0, 0]
