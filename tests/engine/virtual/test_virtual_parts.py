"""The parts of the virtual cluster on their own."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_cases import FLAT, group

from steptune.core.phase import Role, SpanKind
from steptune.engine.routing import Rule, route
from steptune.engine.virtual.book import Book, Device
from steptune.engine.virtual.costs import MeasuredCosts, on_points
from steptune.engine.virtual.event_queue import EventQueue
from steptune.engine.virtual.ranks import rank_seconds
from steptune.engine.virtual.routing import sizes_of
from steptune.engine.virtual.spec import ClusterSpec, ring_s
from steptune.engine.virtual.work import Group, Workload


@given(st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.0]), max_size=30))
def test_events_happen_in_time_order_and_equal_times_in_the_order_planned(delays: list[float]) -> None:
    events, seen = EventQueue(), list[tuple[float, int]]()
    for number, delay in enumerate(delays):
        events.after(delay, lambda n=number: seen.append((events.now_s, n)))
    assert not events.run(lambda: False)
    assert seen == sorted(seen)
    assert len(seen) == len(delays)


@pytest.mark.parametrize("delay", [-0.1, float("nan"), float("inf")])
def test_time_never_runs_backwards_or_away(delay: float) -> None:
    with pytest.raises(ValueError, match="an event cannot be"):
        EventQueue().after(delay, lambda: None)


def test_a_device_cannot_do_two_things_at_once() -> None:
    book, device = Book(), Device(role=Role.ROLLOUT, index=0)
    book.add(device, "rollout", SpanKind.BUSY, 0.0, 2.0)
    with pytest.raises(AssertionError, match="two things"):
        book.add(device, "rollout", SpanKind.BUSY, 1.0, 3.0)


def test_neighbouring_stretches_are_one_and_windows_cut_them() -> None:
    book, device = Book(), Device(role=Role.ROLLOUT, index=0)
    for start in range(4):
        book.add(device, "rollout", SpanKind.BUSY, float(start), start + 1.0)
    assert len(book.stretches[device]) == 1
    assert book.within(device, 1.5, 9.0) == {("rollout", SpanKind.BUSY): 2.5}


def placed(rule: Rule, *sizes: int) -> list[list[int]]:
    """Sizes of the groups on each of two replicas."""
    groups = [Group(index=i, work=group(n), num_left=1) for i, n in enumerate(sizes)]
    replicas: list[list[int]] = [[], []]
    for chosen, replica in route(rule, sizes_of(rule, groups), [0.0, 0.0], 0):
        replicas[replica].append(groups[chosen].work.num_tokens)
    return replicas


def test_longest_first_balances_what_taking_turns_does_not() -> None:
    assert placed("round_robin", 10, 1, 10, 1) == [[10, 10], [1, 1]]
    assert placed("longest_first", 10, 1, 10, 1) == [[10, 1], [10, 1]]


def test_least_loaded_knows_rows_only() -> None:
    assert placed("least_loaded", 10, 1, 10, 1) == [[10, 10], [1, 1]]
    assert route("least_loaded", [5.0], [3.0, 1.0], 0) == [(0, 1)]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 5))
def test_ranks_share_every_row_and_balancing_tokens_is_never_far_from_even(sizes: list[int], num_ranks: int) -> None:
    groups = [Group(index=i, work=group(n), num_left=0) for i, n in enumerate(sizes)]
    whole = 0.01 * sum(n + 1 for n in sizes)
    for balance in ("rows", "tokens"):
        spec = ClusterSpec(num_trainers=num_ranks, num_replicas=1, balance=balance)  # type: ignore[arg-type]
        seconds = rank_seconds(spec, FLAT, groups)
        assert sum(seconds) == pytest.approx(whole)
    # Graham 1969: longest first is within 4/3 of the best, which is at least the mean and the longest row
    assert max(seconds) <= 4 / 3 * max(whole / num_ranks, 0.01 * (max(sizes) + 1)) + 0.01 * (max(sizes) + 1)


def test_one_rank_reduces_nothing_and_many_send_twice_the_bytes() -> None:
    assert ring_s(1e9, 1, 1e9) == 0
    assert ring_s(1e9, 1000, 1e9) == pytest.approx(2, rel=0.01)


def test_points_are_joined_by_lines_and_a_nan_stays_one() -> None:
    points = [(1, 1.0), (3, 2.0), (5, 2.0)]
    assert [on_points(points, x) for x in (1, 2, 3, 9)] == [1.0, 1.5, 2.0, 2.0]
    assert on_points([(1, 1.0), (2, 3.0)], 0) == 0.0
    assert str(on_points([(1, 1.0), (3, float("nan"))], 2)) == "nan"
    assert MeasuredCosts(decode=points, prefill=points, train=points, optimizer=0.1).optimizer_s() == 0.1


def test_work_without_equal_steps_or_beyond_its_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="same number of groups"):
        Workload(steps=[[group(1)], [group(1), group(1)]], max_completion=5)
    with pytest.raises(ValueError, match="exceeds the limit"):
        Workload(steps=[[group(9)]], max_completion=5)


def test_the_event_core_never_loads_torch() -> None:
    code = "import sys, steptune.engine.virtual.cluster; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
