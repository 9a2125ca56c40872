"""What the engine's schedules say beforehand of the age of trained tokens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.adapters.embedded.carry_plan import carried_counts
from steptune.adapters.embedded.lag_plan import lag_plan
from steptune.core.job import AlgorithmSpec, JobSpec, LimitsSpec
from steptune.core.lag import CountedLag, StreamLag, certain_lag
from steptune.engine.knobs import EngineKnobs

STEPS = [((9,) * 32, tuple(1 + 5 * i % 17 for i in range(32)))] * 4


def job_of(num_updates: int = 1) -> JobSpec:
    algorithm = AlgorithmSpec(prompts_per_step=8, group_size=4, num_updates=num_updates)
    return JobSpec(name="j", algorithm=algorithm, limits=LimitsSpec(max_staleness=4, allow_corrections=True))


def test_a_synchronous_step_is_fresh_and_one_step_ahead_is_a_steps_updates_old() -> None:
    assert lag_plan(job_of(2), EngineKnobs(logprob_batch_tokens=2048), STEPS) == CountedLag(shares=((0, 1.0),))
    off = EngineKnobs(schedule="one_step_off", correction="tis", logprob_batch_tokens=2048)
    assert lag_plan(job_of(2), off, STEPS) == CountedLag(shares=((2, 1.0),))
    assert certain_lag(lag_plan(job_of(2), off, STEPS)) == 2


def test_a_stream_is_a_race_and_nothing_of_its_age_is_certain() -> None:
    knobs = EngineKnobs(
        schedule="async",
        max_lag=2,
        correction="tis",
        compact_finished=True,
        rollout_concurrency=8,
        inflight_update=True,
    )
    plan = lag_plan(job_of(), knobs, STEPS)
    assert isinstance(plan, StreamLag)
    assert (plan.groups_per_step, plan.group_size, plan.num_slots, plan.capacity) == (8, 4, 8, 24)
    assert plan.takes_in_flight
    assert certain_lag(plan) == 0


def test_a_partial_rollout_leaves_some_tokens_a_step_old_and_none_older_than_its_bound() -> None:
    knobs = EngineKnobs(partial_rollout=1.5, max_lag=1, correction="tis", compact_finished=True)
    plan = lag_plan(job_of(), knobs, STEPS)
    assert isinstance(plan, CountedLag)
    shares = dict(plan.shares)
    assert set(shares) == {0, 1}
    assert 0.1 < shares[1] < 0.9
    assert certain_lag(plan) == 1


def test_a_steps_age_counts_updates() -> None:
    knobs = EngineKnobs(
        partial_rollout=1.5, max_lag=2, correction="tis", compact_finished=True, logprob_batch_tokens=2048
    )
    plan = lag_plan(job_of(2), knobs, STEPS)
    assert isinstance(plan, CountedLag)
    assert {age for age, _ in plan.shares} == {0, 2}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=12, max_size=12), st.integers(1, 3), st.sampled_from([2, 6]))
def test_every_token_of_a_trained_group_is_counted_and_none_beyond_the_bound(
    lengths: list[int], lag: int, num_slots: int
) -> None:
    counts = carried_counts(
        [[9] * 12, lengths],
        group_size=2,
        per_step=2,
        capacity=3,
        max_lag_steps=lag,
        num_slots=num_slots,
        share_prefill=True,
    )
    assert all(0 <= age <= lag for age in counts.tokens_by_age)
    # three steps of two groups: at least the six shortest, at most the six longest, repeats allowed
    groups = sorted(lengths[i] + lengths[i + 1] for i in range(0, 12, 2))
    assert 6 * groups[0] <= counts.tokens_by_age.total() <= 6 * groups[-1]
