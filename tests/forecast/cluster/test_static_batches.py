"""Static batching and what a foreign trainer does with rows: padded calls, padded micro-batches, shared prompts."""

import pytest
from step_model_cases import FLAT, group, work

from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.split import padded_micro_batches
from steptune.forecast.cluster.static import in_calls
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs, train_time
from steptune.forecast.curve import ForecastError

FREE = RolloutCosts(decode=FLAT.decode)


def tokens_of(step: tuple) -> list[int]:
    return [row.tokens for own in step for row in own.rows]


def test_a_call_is_as_long_as_its_longest_row_and_its_longest_prompt() -> None:
    made = in_calls(work(group(3, 9, prompt=4), group(5, 2, prompt=7)), 1)
    assert tokens_of(made.steps[0]) == [9, 9, 9, 9]
    assert [own.prompt for own in made.steps[0]] == [7, 7]


def test_two_calls_wait_for_their_own_longest_row_only() -> None:
    made = in_calls(work(group(3, 9), group(5, 2)), 2)
    assert [tokens_of(step) for step in made.steps] == [[9, 9], [5, 5]]
    assert sum(makespan(RolloutKnobs(num_replicas=1), FREE, made, step=i).seconds for i in (0, 1)) == 14


def test_a_group_is_never_cut() -> None:
    with pytest.raises(ForecastError, match="3 groups in 2 calls"):
        in_calls(work(group(1), group(2), group(3)), 2)


def test_a_micro_batch_of_rows_is_as_wide_as_its_widest() -> None:
    assert padded_micro_batches([3, 9, 4, 2, 5], 2) == [[9, 9], [4, 4], [5]]
    knobs, costs = TrainKnobs(num_ranks=1, micro_batch_rows=2), TrainCosts(per_token_s=1.0, per_micro_batch_s=0.5)
    made = train_time(knobs, costs, work(group(3, 9, 4, 2, 5, prompt=0)).steps[0])
    assert (made.num_micro_batches, made.seconds) == (3, 18 + 8 + 5 + 1.5)


def test_a_measured_recompute_replaces_the_prior_and_repeats_the_overhead() -> None:
    groups = work(group(10, prompt=0)).steps[0]
    knobs = TrainKnobs(num_ranks=1, micro_batch_rows=1, recompute="full")
    known = TrainCosts(per_token_s=1.0, per_micro_batch_s=2.0, full_recompute=1.5)
    assert train_time(knobs, known, groups).seconds == pytest.approx(1.5 * (10 + 2))
    prior = TrainCosts(per_token_s=1.0, per_micro_batch_s=2.0)
    assert train_time(knobs, prior, groups).seconds == pytest.approx(4 / 3 * 10 + 2)


def test_a_shared_prompt_leaves_room_for_more_rows() -> None:
    # a prompt of 10 and three rows of 5: 25 tokens together, 45 apart
    job = work(group(5, 5, 5, prompt=10), limit=5)
    apart, shared = (
        makespan(RolloutKnobs(num_replicas=1, kv_tokens=30, shares_cache=shares), FREE, job) for shares in (False, True)
    )
    assert (shared.seconds, shared.num_preempted) == (5, 0)
    assert apart.seconds > shared.seconds


def test_the_last_holder_frees_the_shared_prompt() -> None:
    # two groups that fit one after the other, but not together
    job = work(group(5, 5, prompt=10), group(5, 5, prompt=10), limit=5)
    knobs = RolloutKnobs(num_replicas=1, kv_tokens=22, shares_cache=True)
    made = makespan(knobs, FREE, job)
    assert made.group_done_s[0] < made.group_done_s[1] == made.seconds


def test_unfilled_blocks_leave_less_room() -> None:
    job = work(group(*[6] * 8, prompt=4), limit=6)
    exact, blocks = (
        makespan(RolloutKnobs(num_replicas=1, kv_tokens=44, unfilled_tokens=tokens), FREE, job) for tokens in (0, 4)
    )
    assert blocks.seconds > exact.seconds


def test_a_cache_that_does_not_hold_the_longest_rows_last_block_is_refused() -> None:
    with pytest.raises(ForecastError, match="longest row"):
        makespan(RolloutKnobs(num_replicas=1, kv_tokens=10, unfilled_tokens=3), FREE, work(group(6, prompt=4), limit=6))
