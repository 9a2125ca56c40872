"""A background lane: order, errors, and its end."""

import threading

import pytest

from steptune.engine.offload.thread_lanes import CallerLane, ThreadLane


def test_a_lane_runs_in_order_and_not_before_what_it_waits_for() -> None:
    seen, gate = list[str](), threading.Event()
    other, lane = ThreadLane("other"), ThreadLane("lane")
    other.submit(lambda: gate.wait() and None)
    other.submit(lambda: seen.append("other"))
    lane.wait(other.record())
    lane.submit(lambda: seen.append("lane"))
    assert seen == []
    gate.set()
    lane.synchronize()
    assert seen == ["other", "lane"]
    lane.close()
    other.close()


def test_an_error_skips_what_is_behind_it_and_reaches_everyone_who_waits() -> None:
    seen, first, second, caller = list[int](), ThreadLane("first"), ThreadLane("second"), CallerLane()
    before = first.record()
    first.submit(lambda: seen.append(1 // 0))
    first.submit(lambda: seen.append(1))
    after = first.record()
    second.wait(after)
    second.submit(lambda: seen.append(2))
    caller.wait(before)
    for mark in (after, second.record()):
        with pytest.raises(ZeroDivisionError):
            caller.wait(mark)
    first.close()
    second.close()
    assert seen == []


def test_closing_finishes_what_is_queued_and_ends_the_thread() -> None:
    seen, threads = list[int](), threading.active_count()
    lane = ThreadLane("lane")
    for number in range(100):
        lane.submit(lambda number=number: seen.append(number))
    lane.close()
    assert seen == list(range(100))
    assert threading.active_count() == threads
