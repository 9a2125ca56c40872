"""One batch over replicas: closed forms, and what more work or less room does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from step_model_cases import FLAT, drawn_work, group, sides, work

from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.work import Wait
from steptune.forecast.curve import ForecastError

ONE = RolloutKnobs(num_replicas=1)


def test_one_row_takes_its_tokens_times_an_iteration() -> None:
    assert makespan(ONE, FLAT, work(group(37))).seconds == pytest.approx(37)


def test_a_replica_ends_with_its_longest_row_when_rows_are_free() -> None:
    made = makespan(ONE, FLAT, work(group(5, 9), group(3, 20)))
    assert (made.seconds, made.group_done_s) == (20, (9, 20))


def test_equal_rows_under_a_limit_come_in_waves() -> None:
    # 10 rows of 6 tokens, 4 at once: three waves of 6 iterations
    assert makespan(RolloutKnobs(num_replicas=1, max_rows=4), FLAT, work(group(*[6] * 10))).seconds == 18


def test_a_linear_curve_charges_every_row_for_every_token_it_is_there() -> None:
    # 0.1 + 0.01 n: ten iterations of two rows, then ten of one
    costs = RolloutCosts(decode=DecodeCurve(rows=(1, 2), seconds=(0.11, 0.12)))
    assert makespan(ONE, costs, work(group(10, 20))).seconds == pytest.approx(10 * 0.12 + 10 * 0.11)


def test_the_cache_lengthens_iterations_as_it_fills() -> None:
    # one row of 4 tokens after 10 of prompt: iterations read 10, 11, 12, 13 cached tokens
    costs = RolloutCosts(decode=DecodeCurve(rows=(1,), seconds=(1.0,), per_cached_token_s=0.1))
    assert makespan(ONE, costs, work(group(4, prompt=10))).seconds == pytest.approx(4 + 0.1 * (10 + 11 + 12 + 13))


def test_a_groups_prompt_is_computed_once_or_for_every_row() -> None:
    costs = RolloutCosts(decode=FLAT.decode, prefill_per_token_s=0.5)
    shared = makespan(ONE, costs, work(group(2, 2, prompt=10))).seconds
    own = makespan(RolloutKnobs(num_replicas=1, share_prefill=False), costs, work(group(2, 2, prompt=10))).seconds
    assert (shared, own) == (5 + 2, 10 + 2)


def test_preemption_pays_a_prefill_of_all_that_was_made() -> None:
    # cache of 12: two rows of 8 tokens after a prompt of 1 each; both run until 1+1+5+5 = 12, then the newer goes
    costs = RolloutCosts(decode=FLAT.decode, prefill_per_token_s=1.0)
    knobs = RolloutKnobs(num_replicas=1, kv_tokens=12, share_prefill=False)
    made = makespan(knobs, costs, work(group(8, prompt=1), group(8, prompt=1), limit=8))
    # 2 s prefill, 5 iterations together, 3 alone, 6 positions again, 3 alone
    assert (made.num_preempted, made.num_recomputed, made.seconds) == (1, 6, 2 + 5 + 3 + 6 + 3)


def test_a_reservation_admits_only_what_could_finish() -> None:
    knobs = RolloutKnobs(num_replicas=1, kv_tokens=25, admission="reserve")
    # 20 tokens reserved per row: one at a time
    assert makespan(knobs, FLAT, work(group(3, 4, 5), limit=20)).seconds == 12


def test_a_tool_wait_frees_the_row_and_stretches_its_group() -> None:
    waits = (Wait(at_token=2, seconds=7.0),)
    made = makespan(ONE, FLAT, work(group(5, waits=waits)))
    assert (made.seconds, made.env_wait_s) == (12, 7)


def test_environment_workers_serve_one_call_after_the_other() -> None:
    waits = (Wait(at_token=1, seconds=10.0),)
    made = makespan(
        RolloutKnobs(num_replicas=2, num_env_workers=1), FLAT, work(group(2, waits=waits), group(2, waits=waits))
    )
    assert made.seconds == 1 + 10 + 10 + 1


def test_rows_of_no_tokens_end_at_once() -> None:
    made = makespan(ONE, FLAT, work(group(0, 0), group(3, 0)))
    assert (made.seconds, made.group_done_s) == (3, (0, 3))


def test_longest_first_is_no_later_than_round_robin_on_a_bad_order() -> None:
    jobs = work(group(10), group(1), group(10), group(1))
    busy = RolloutCosts(decode=DecodeCurve(rows=(1, 2), seconds=(1.0, 2.0)))
    robin = makespan(RolloutKnobs(num_replicas=2), busy, jobs).seconds
    longest = makespan(RolloutKnobs(num_replicas=2, routing="longest_first"), busy, jobs).seconds
    # one iteration of two rows on each, then nine of one
    assert (robin, longest) == (20, 2 + 9)


def test_a_straggling_replica_sets_the_pace() -> None:
    slow = RolloutCosts(decode=FLAT.decode, slowdown=(3.0,))
    assert makespan(RolloutKnobs(num_replicas=2), slow, work(group(4), group(4))).seconds == 12


def test_a_cache_too_small_for_the_longest_row_is_refused() -> None:
    with pytest.raises(ForecastError, match="longest row"):
        makespan(RolloutKnobs(num_replicas=1, kv_tokens=10), FLAT, work(group(4, prompt=5), limit=20))


@given(seed=st.integers(0, 1000), factor=st.sampled_from([2, 3]))
def test_seconds_scale_with_the_unit_of_the_prices(seed: int, factor: int) -> None:
    job = sides(drawn_work(seed))
    scaled = job.parameters.scaled(rollout=factor).rollout
    knobs = RolloutKnobs(num_replicas=2, max_rows=4, kv_tokens=400)
    once = makespan(knobs, job.parameters.rollout, job.work).seconds
    assert makespan(knobs, scaled, job.work).seconds == pytest.approx(factor * once)


@given(seed=st.integers(0, 1000), more=st.integers(1, 50))
def test_longer_rows_never_end_sooner_on_one_replica(seed: int, more: int) -> None:
    job = drawn_work(seed)
    longer = work(*(group(*(r.tokens + more for r in g.rows), prompt=g.prompt) for g in job.steps[0]))
    costs = sides(job).parameters.rollout
    assert makespan(ONE, costs, longer).seconds >= makespan(ONE, costs, job).seconds


@given(seed=st.integers(0, 1000))
def test_no_makespan_beats_its_longest_row_or_its_share_of_the_work(seed: int) -> None:
    job = sides(drawn_work(seed))
    costs = job.parameters.rollout
    seconds = makespan(RolloutKnobs(num_replicas=3), costs, job.work).seconds
    longest = max(r.tokens for g in job.work.steps[0] for r in g.rows)
    assert seconds >= longest * costs.decode.base_s(1)
