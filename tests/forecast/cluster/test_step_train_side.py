"""Training: each term on its own, and what may never make it faster."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from step_model_cases import drawn_work, group

from steptune.forecast.cluster.efficiency import SHARED_TO_OWN, exponent
from steptune.forecast.cluster.split import micro_batches, split_rows
from steptune.forecast.cluster.sync import SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs, train_time
from steptune.forecast.curve import ForecastError

COSTS = TrainCosts(per_token_s=0.01, per_micro_batch_s=0.5)
FOUR = [group(10), group(20), group(30), group(40)]


def test_one_rank_pays_tokens_and_micro_batches() -> None:
    # 100 positions in micro-batches [40], [30, 20], [10]
    made = train_time(TrainKnobs(num_ranks=1, micro_batch_tokens=50), COSTS, FOUR)
    assert made.seconds == pytest.approx(1.0 + 3 * 0.5)
    assert made.num_micro_batches == 3


def test_equal_rows_are_not_equal_work() -> None:
    made = train_time(TrainKnobs(num_ranks=2, micro_batch_tokens=1000), replace(COSTS, per_micro_batch_s=0), FOUR)
    # neighbours: 30 against 70 positions; the mean is 0.5 s and the slower one waits for nobody
    assert (made.compute_s, made.imbalance_s) == (pytest.approx(0.5), pytest.approx(0.2))


def test_balanced_tokens_leave_nothing_to_wait_for() -> None:
    costs = replace(COSTS, per_micro_batch_s=0)
    knobs = TrainKnobs(num_ranks=2, balance="tokens", micro_batch_tokens=1000)
    assert train_time(knobs, costs, FOUR).imbalance_s == pytest.approx(0)


def test_squares_make_equal_tokens_unequal() -> None:
    costs = TrainCosts(per_token_s=0, per_token_squared_s=1e-4)
    groups = [group(40), group(10), group(10), group(10), group(10)]
    tokens = train_time(TrainKnobs(num_ranks=2, balance="tokens"), costs, groups)
    # 40 squared against four times 10 squared
    assert tokens.compute_s + tokens.imbalance_s == pytest.approx(0.16)


def test_every_update_waits_for_its_own_slowest() -> None:
    costs = replace(COSTS, per_micro_batch_s=0, per_update_s=0.1)
    once = train_time(TrainKnobs(num_ranks=2), costs, FOUR)
    twice = train_time(TrainKnobs(num_ranks=2, num_updates=2), costs, FOUR)
    assert twice.optimizer_s == pytest.approx(2 * once.optimizer_s)
    # [10 | 20] and [30 | 40]: 0.2 + 0.4 s
    assert twice.compute_s + twice.imbalance_s == pytest.approx(0.6)


def test_collectives_count_where_compute_does_not_hide_them() -> None:
    knobs = TrainKnobs(num_ranks=1, micro_batch_tokens=1000)
    hidden = train_time(knobs, replace(COSTS, collective_per_token_s=0.009), FOUR).seconds
    exposed = train_time(knobs, replace(COSTS, collective_per_token_s=0.02), FOUR).seconds
    assert (hidden, exposed) == (pytest.approx(1.5), pytest.approx(2.5))


def test_a_ring_reduction_grows_with_ranks_towards_twice_the_bytes() -> None:
    costs = replace(COSTS, reduce_bytes=100, reduce_bytes_per_s=100)
    seconds = [train_time(TrainKnobs(num_ranks=n), costs, FOUR).reduce_s for n in (1, 2, 4)]
    assert seconds == [0, 1.0, 1.5]


def test_full_recompute_is_one_more_forward() -> None:
    costs = replace(COSTS, per_micro_batch_s=0)
    plain = train_time(TrainKnobs(num_ranks=1), costs, FOUR).compute_s
    assert train_time(TrainKnobs(num_ranks=1, recompute="full"), costs, FOUR).compute_s == pytest.approx(plain * 4 / 3)


def test_the_pipelines_bubble_shrinks_with_micro_batches() -> None:
    costs = replace(COSTS, per_micro_batch_s=0)
    rows = [group(10)] * 8
    one = TrainKnobs(num_ranks=1, devices_per_rank=4, num_stages=4, micro_batch_tokens=10)
    # 8 micro-batches through 4 stages: 3/8 of the work
    assert train_time(one, costs, rows).bubble_s == pytest.approx(0.8 * 3 / 8)


def test_offload_pays_its_bytes_at_every_update() -> None:
    costs = replace(COSTS, offload_bytes=10, offload_bytes_per_s=5)
    assert train_time(TrainKnobs(num_ranks=1, offloads=True, num_updates=2), costs, FOUR).offload_s == 4
    assert train_time(TrainKnobs(num_ranks=1), costs, FOUR).offload_s == 0


def test_the_busiest_expert_sets_the_pace() -> None:
    costs = TrainCosts(per_token_s=0.01, expert_imbalance=1.7)
    assert train_time(TrainKnobs(num_ranks=1), costs, FOUR).seconds == pytest.approx(1.7)


def test_no_rows_leave_only_what_is_fixed() -> None:
    made = train_time(TrainKnobs(num_ranks=3), replace(COSTS, per_update_s=0.1, carried_s=0.2), [])
    assert made.seconds == pytest.approx(0.3)


def test_a_row_longer_than_the_budget_stands_alone() -> None:
    assert micro_batches([100, 3], 50) == [[100], [3]]


@given(seed=st.integers(0, 1000), ranks=st.integers(1, 8), longer=st.integers(1, 64))
def test_longer_rows_never_train_faster_without_overhead(seed: int, ranks: int, longer: int) -> None:
    costs = TrainCosts(per_token_s=0.01, per_token_squared_s=1e-5)
    groups = drawn_work(seed).steps[0]
    more = [group(*(r.tokens + longer for r in g.rows), prompt=g.prompt) for g in groups]
    assert (
        train_time(TrainKnobs(num_ranks=ranks), costs, more).seconds
        > train_time(TrainKnobs(num_ranks=ranks), costs, groups).seconds
    )


@given(
    rows=st.lists(st.integers(1, 500), max_size=40),
    ranks=st.integers(1, 9),
    rule=st.sampled_from(["rows", "tokens", "cost"]),
)
def test_every_row_is_trained_once(rows: list[int], ranks: int, rule: str) -> None:
    shares = split_rows(rows, ranks, rule, [float(r * r) for r in rows])  # type: ignore[arg-type]
    assert len(shares) == ranks
    assert sorted(r for share in shares for r in share) == sorted(rows)


def test_half_of_the_devices_need_not_take_twice_as_long() -> None:
    """Published verl rows of a 7B model, 64 of 128 devices: 113.2 against 113.8 s. The linear model says 227 s."""
    prior = exponent(was_colocated=True, is_colocated=False)
    assert 0.95 < prior.ratio(128, 64) < 1.3
    assert abs(0.995 - prior.ratio(128, 64)) < 1.3 * prior.log_sd(128, 64)


def test_trials_pull_the_exponent_towards_what_they_show() -> None:
    seen = exponent(was_colocated=True, is_colocated=False, seen=[(0.69, 0.69), (0.69, 0.66)])
    assert seen.mean > 0.9
    assert seen.sd < 0.2 * SHARED_TO_OWN[1]


def test_weights_cost_bytes_tensors_and_a_pause() -> None:
    costs = SyncCosts(num_bytes=20, bytes_per_s=10, num_tensors=3, per_tensor_s=0.1, pause_s=0.5)
    assert costs.seconds(4) == pytest.approx(0.5 + 2 + 0.3)
    assert replace(costs, is_broadcast=False).seconds(4) == pytest.approx(0.5 + 4 * 2.3)


def test_stages_that_do_not_divide_a_rank_are_refused() -> None:
    with pytest.raises(ForecastError, match="stages"):
        TrainKnobs(num_ranks=1, devices_per_rank=4, num_stages=3)
