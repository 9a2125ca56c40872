"""The virtual cluster against closed forms, and what must hold of every run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_cases import FLAT, group, workload

from steptune.core.errors import JobError
from steptune.core.estimate import Source
from steptune.core.phase import Role
from steptune.engine.virtual.cluster import simulate
from steptune.engine.virtual.costs import LinearCosts
from steptune.engine.virtual.spec import ClusterSpec
from steptune.engine.virtual.work import GroupWork, RowWork, ToolCall, Workload


def mean_step(spec: ClusterSpec, work: Workload, costs: LinearCosts = FLAT, num_steps: int = 8) -> float:
    """Steady step: the first four are the pipeline filling up."""
    return simulate(spec, work, costs, num_steps=num_steps).step_time(4).value


def test_one_replica_of_equal_rows_takes_length_times_iteration() -> None:
    costs = LinearCosts(decode=(0.5, 0.1), prefill=(0.0, 0.01))
    run = simulate(ClusterSpec(num_trainers=1, num_replicas=1), workload(group(7, 7, 7, prompt=5)), costs, num_steps=1)
    # 7 iterations of 3 rows, 5 prompt positions once for the group
    assert run.steps[0].virtual_s == pytest.approx(7 * (0.5 + 0.3) + 0.05)


def test_a_prompt_that_is_not_shared_is_paid_by_every_row() -> None:
    costs = LinearCosts(decode=(0.0, 0.0), prefill=(0.0, 0.01))
    spec = ClusterSpec(num_trainers=1, num_replicas=1, share_prefill=False)
    assert simulate(spec, workload(group(2, 2, prompt=5)), costs, num_steps=1).steps[0].virtual_s == pytest.approx(0.1)


def test_rows_beyond_the_limit_wait_for_a_slot() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, max_rows=1)
    costs = LinearCosts(decode=(1.0, 0.0))
    assert simulate(spec, workload(group(3, 4)), costs, num_steps=1).steps[0].virtual_s == 7


def test_a_synchronous_step_is_the_sum_of_its_parts() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, sync_s=2.0, allreduce_s=0.25)
    # rollout 10, train (2 rows of 11 positions) 0.22, optimizer 0.5, all-reduce 0.25, weights 2
    assert mean_step(spec, workload(group(10, 10))) == pytest.approx(10 + 0.22 + 0.5 + 0.25 + 2.0)


@pytest.mark.parametrize(("decode_s", "train_s"), [(1.0, 0.01), (0.01, 1.0)])
def test_an_overlapped_step_is_the_larger_side_and_the_weights(decode_s: float, train_s: float) -> None:
    costs = LinearCosts(decode=(decode_s, 0.0), train=(0.0, train_s))
    spec = ClusterSpec(num_trainers=1, num_replicas=1, schedule="one_step_off", sync_s=0.3)
    larger = max(10 * decode_s, 22 * train_s)
    assert mean_step(spec, workload(group(10, 10)), costs) == pytest.approx(larger + 0.3)


def test_lag_is_nothing_in_sync_and_one_update_one_step_off() -> None:
    lags = {
        schedule: [
            set(step.rows_by_lag)
            for step in simulate(
                ClusterSpec(num_trainers=1, num_replicas=1, schedule=schedule),  # type: ignore[arg-type]
                workload(group(3, 3)),
                FLAT,
                num_steps=4,
            ).steps
        ]
        for schedule in ("sync", "one_step_off")
    }
    assert lags == {"sync": [{0}] * 4, "one_step_off": [{0}, {1}, {1}, {1}]}


def test_a_straggler_sets_the_pace_of_a_synchronous_step() -> None:
    work = workload(group(10), group(10))
    healthy = ClusterSpec(num_trainers=1, num_replicas=2)
    slow = ClusterSpec(num_trainers=1, num_replicas=2, replica_slowdown=(1.0, 3.0))
    assert mean_step(slow, work) - mean_step(healthy, work) == pytest.approx(2 * 10)


def test_a_slow_rank_makes_the_others_wait() -> None:
    spec = ClusterSpec(num_trainers=2, num_replicas=1, trainer_slowdown=(1.0, 4.0))
    step = simulate(spec, workload(group(9, 9)), FLAT, num_steps=1).steps[0]
    # 10 positions each: 0.1 s and 0.4 s
    waits = {d.index: d.virtual_wait_s for d in step.devices if d.role is Role.TRAINER}
    assert waits[0] - waits[1] == pytest.approx(0.3)


def test_asynchronous_work_hides_the_tail_that_a_synchronous_step_waits_for() -> None:
    work = workload(group(2), group(2), group(2), group(40), limit=40)
    sync = ClusterSpec(num_trainers=1, num_replicas=4)
    ahead = ClusterSpec(num_trainers=1, num_replicas=4, schedule="async", max_lag=4, consume="first_done")
    assert mean_step(ahead, work, num_steps=30) < 0.7 * mean_step(sync, work, num_steps=30)


def test_a_cache_for_one_row_at_a_time_makes_rows_wait() -> None:
    costs = LinearCosts(decode=(1.0, 0.0))
    spec = ClusterSpec(num_trainers=1, num_replicas=1, kv_tokens=11, over_budget="reserve")
    work = workload(group(10, 10), limit=10)
    assert simulate(spec, work, costs, num_steps=1).steps[0].virtual_s == 20


def test_preemption_recomputes_but_never_generates_twice() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, kv_tokens=16)
    run = simulate(spec, workload(group(10, 10), limit=10), LinearCosts(decode=(1.0, 0.0)), num_steps=1)
    # both start; at 14 of 16 tokens one is thrown out, and comes back with its tokens when the other is done
    assert run.num_preempted == 1
    # its prompt and 7 tokens: two rows of 8 fill the cache
    assert run.num_recomputed == 1 + 7
    assert run.num_generated == run.num_trained == 20


def test_a_row_in_a_tool_call_waits_and_the_second_call_waits_for_the_first() -> None:
    call = (ToolCall(at_token=2, seconds=5.0),)
    work = workload(group(4, 4, tools=call), limit=4)
    costs = LinearCosts(decode=(1.0, 0.0))
    one = ClusterSpec(num_trainers=1, num_replicas=1, num_tool_workers=1)
    two = ClusterSpec(num_trainers=1, num_replicas=1, num_tool_workers=2)
    # 2 tokens, 5 s of tool, 2 tokens; with one worker the second row's call ends 5 s later
    assert simulate(two, work, costs, num_steps=1).steps[0].virtual_s == 2 + 5 + 2
    assert simulate(one, work, costs, num_steps=1).steps[0].virtual_s == 2 + 10 + 2


@pytest.mark.parametrize(
    "wrong",
    [
        ClusterSpec(num_trainers=0, num_replicas=1),
        ClusterSpec(num_trainers=1, num_replicas=1, schedule="one_step_off", is_colocated=True),
        ClusterSpec(num_trainers=1, num_replicas=1, max_lag=1),
        ClusterSpec(num_trainers=1, num_replicas=1, kv_tokens=50),
        ClusterSpec(num_trainers=1, num_replicas=1, sync_s=float("nan")),
        ClusterSpec(num_trainers=1, num_replicas=1, replica_slowdown=(float("nan"),)),
    ],
)
def test_a_cluster_that_cannot_run_is_refused(wrong: ClusterSpec) -> None:
    with pytest.raises(JobError, match="virtual cluster"):
        simulate(wrong, workload(group(3), limit=100), FLAT, num_steps=1)


def test_a_cost_that_is_not_a_number_never_passes() -> None:
    with pytest.raises(ValueError, match="nan"):
        simulate(
            ClusterSpec(num_trainers=1, num_replicas=1),
            workload(group(3)),
            LinearCosts(decode=(float("nan"), 0.0)),
            num_steps=1,
        )


def test_every_number_says_that_it_is_virtual() -> None:
    run = simulate(ClusterSpec(num_trainers=1, num_replicas=1), workload(group(3)), FLAT, num_steps=2)
    assert run.source is Source.VIRTUAL
    assert {step.source for step in run.steps} == {Source.VIRTUAL}
    assert run.step_time(0).source is Source.VIRTUAL
    assert "virtual" in str(run.step_time(0))


lengths = st.integers(1, 12)
rows = st.builds(
    lambda n, tool: RowWork(completion=n, tools=(ToolCall(at_token=1, seconds=tool),) if n > 1 and tool else ()),
    lengths,
    st.sampled_from([0.0, 0.5, 7.0]),
)
groups = st.builds(
    lambda prompt, rows, predicted: GroupWork(prompt=prompt, rows=tuple(rows), predicted=predicted),
    st.integers(1, 6),
    st.lists(rows, min_size=1, max_size=3),
    st.floats(0, 40),
)
workloads = st.integers(1, 4).flatmap(
    lambda size: st.builds(
        lambda steps: Workload(steps=steps, max_completion=12),
        st.lists(st.lists(groups, min_size=size, max_size=size), min_size=1, max_size=3),
    )
)
schedules = st.sampled_from(
    [
        {"schedule": "sync"},
        {"schedule": "one_step_off"},
        *({"schedule": "async", "max_lag": lag, "consume": c} for lag in (0, 1, 3) for c in ("in_order", "first_done")),
    ]
)
specs = st.builds(
    lambda schedule, **more: ClusterSpec(**schedule, **more),  # type: ignore[arg-type]
    schedules,
    num_trainers=st.integers(1, 3),
    num_replicas=st.integers(1, 3),
    routing=st.sampled_from(["round_robin", "least_loaded", "longest_first"]),
    max_rows=st.sampled_from([None, 1, 3]),
    kv_tokens=st.sampled_from([None, 18, 30]),
    over_budget=st.sampled_from(["preempt", "reserve"]),
    sync_s=st.sampled_from([0.0, 2.5]),
    balance=st.sampled_from(["rows", "tokens"]),
    num_tool_workers=st.integers(1, 2),
    replica_slowdown=st.sampled_from([(), (4.0,)]),
)
COSTS = LinearCosts(decode=(0.7, 0.1), prefill=(0.1, 0.01), train=(0.2, 0.05), optimizer=0.3)


@settings(max_examples=150, deadline=None)
@given(spec=specs, work=workloads)
def test_what_holds_of_every_run(spec: ClusterSpec, work: Workload) -> None:
    run = simulate(spec, work, COSTS, num_steps=5)
    bound = {"sync": 0, "one_step_off": 1, "async": spec.max_lag}[spec.schedule]
    assert run.max_lag <= bound
    assert run.num_generated == run.num_trained + run.num_buffered + run.num_dropped
    assert run.num_buffered >= 0
    assert run.num_dropped == 0 or spec.consume == "first_done"
    for step in run.steps:
        assert step.virtual_s > 0
        for device in step.devices:
            together = device.virtual_busy_s + device.virtual_wait_s + device.virtual_idle_s
            assert together == pytest.approx(step.virtual_s)
            assert device.virtual_idle_s >= -1e-6
    assert run == simulate(spec, work, COSTS, num_steps=5)


def test_a_preempted_row_comes_back_before_rows_that_have_not_begun() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, kv_tokens=16, max_rows=2)
    run = simulate(spec, workload(group(10, 10, 10), limit=10), LinearCosts(decode=(1.0, 0.0)), num_steps=1)
    # the second is thrown out at 7 tokens and does not fit until 10; only then does the third begin
    assert (run.num_preempted, run.steps[0].virtual_s) == (1, 20)


def test_reserved_rows_are_never_thrown_out_even_where_they_fill_the_cache() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, kv_tokens=8, over_budget="reserve")
    run = simulate(spec, workload(group(3, 3), limit=3), LinearCosts(decode=(1.0, 0.0)), num_steps=1)
    # a prompt of 1 and 3 tokens each: both are reserved at once
    assert (run.num_preempted, run.steps[0].virtual_s) == (0, 3)
