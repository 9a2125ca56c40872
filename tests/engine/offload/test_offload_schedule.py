"""The schedule in virtual time: closed forms, races, and that every wait is needed."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.engine.offload.closed_form import overlapped_s, serial_s
from steptune.engine.offload.ops import Op, Point, Record, Wait
from steptune.engine.offload.schedule import Schedule, lazy, prefetched, serial
from steptune.engine.offload.simulated import Costs, HazardError, SimGraph, SimLink

RATIOS = [0.25, 0.5, 0.9, 1.0, 2.0]
"""Copy time over compute time."""


def backward_s(schedule: Schedule, costs: Costs, *, is_host_synced: bool = False) -> float:
    """Return the virtual seconds of one backward pass."""
    link = SimLink()
    graph = SimGraph(link, schedule, costs)
    graph.forward()
    link.compute.synchronize()
    link.store.synchronize()
    start_s = link.host.now_s
    graph.backward(is_host_synced=is_host_synced)
    return link.compute.ready_s - start_s


def costs(ratio: float) -> Costs:
    """Return a layer of 8 s (exact in binary) and its copies."""
    return Costs(forward_s=3.0, backward_s=8.0, store_s=8.0 * ratio, load_s=8.0 * ratio)


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_serial_reload_takes_n_times_compute_and_copy(ratio: float) -> None:
    measured = backward_s(serial(12, num_kept=0), costs(ratio))
    assert measured == pytest.approx(serial_s(12, compute_s=8, copy_s=8 * ratio), rel=1e-12)


@pytest.mark.parametrize("is_host_synced", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_kept", [0, 1])
def test_a_prefetched_reload_meets_the_closed_form_with_and_without_a_host_sync(
    ratio: float, num_kept: int, depth: int, *, is_host_synced: bool
) -> None:
    measured = backward_s(prefetched(12, num_kept=num_kept, depth=depth), costs(ratio), is_host_synced=is_host_synced)
    assert measured == pytest.approx(overlapped_s(12, compute_s=8, copy_s=8 * ratio, num_kept=num_kept), rel=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_host_sync_inside_a_layer_costs_lazy_double_buffering_its_whole_gain(ratio: float) -> None:
    free = backward_s(lazy(12, num_kept=0), costs(ratio))
    synced = backward_s(lazy(12, num_kept=0), costs(ratio), is_host_synced=True)
    assert free == pytest.approx(overlapped_s(12, compute_s=8, copy_s=8 * ratio), rel=1e-12)
    assert synced == pytest.approx(serial_s(12, compute_s=8, copy_s=8 * ratio), rel=1e-12)


def test_the_closed_form_gives_the_published_gains() -> None:
    # engine-and-models 1.2, N = 24 and c = 10 ms: serial over double-buffered
    gains = [serial_s(24, compute_s=10, copy_s=m) / overlapped_s(24, compute_s=10, copy_s=m) for m in (2, 5, 9, 10, 20)]
    assert [round(gain, 2) for gain in gains] == [1.19, 1.47, 1.83, 1.92, 1.47]


SCHEDULES = [
    serial(7),
    lazy(7),
    prefetched(7),
    prefetched(7, depth=3),
    prefetched(7, num_kept=0),
    Schedule(num_offloaded=7, num_kept=2, depth=1, num_slots=4, stores_in_flight=4),
    Schedule(num_offloaded=3, num_kept=1, depth=4, num_slots=5, stores_in_flight=0),
]


def all_ops(schedule: Schedule) -> list[Op]:
    """Return everything one graph enqueues."""
    layers = range(schedule.num_layers)
    forward = [op for layer in layers for op in (*schedule.before_forward(layer), *schedule.after_forward(layer))]
    return forward + [
        op for i in reversed(layers) for op in (*schedule.before_backward(i), *schedule.after_backward(i))
    ]


def without(dropped: Op) -> Callable[[Sequence[Op]], Sequence[Op]]:
    """Return an edit that leaves one operation out."""
    return lambda ops: [op for op in ops if op != dropped]


def run_once(schedule: Schedule, edit: Callable[[Sequence[Op]], Sequence[Op]] = tuple) -> None:
    """Run one graph with copies that take no time: nothing but order can save it."""
    graph = SimGraph(SimLink(), schedule, Costs(backward_s=0.0, load_s=0.0))
    graph.forward(edit)
    graph.backward(edit)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_whole_schedule_has_no_hazard(schedule: Schedule) -> None:
    run_once(schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_dropping_any_wait_or_record_is_a_hazard_whatever_the_timing(schedule: Schedule) -> None:
    needed = [op for op in all_ops(schedule) if isinstance(op, Wait | Record)]
    waited = {op.event for op in needed if isinstance(op, Wait)}
    unnoticed = []
    for op in needed:
        if op.event.point is Point.STORED and op.event not in waited:
            continue  # the last copy's event stands for those before it
        try:
            run_once(schedule, without(op))
        except HazardError:
            continue
        unnoticed.append(op)
    assert len(needed) >= 4 * schedule.num_offloaded
    assert unnoticed == []


def test_a_slot_freed_before_its_layer_ran_is_a_hazard() -> None:
    schedule = prefetched(7)

    def free_early(ops: Sequence[Op]) -> Sequence[Op]:
        done = [Record(op.lane, op.event._replace(layer=op.event.layer - 1)) for op in ops if is_done(op)]
        return [*(op for op in ops if not is_done(op)), *done]

    def is_done(op: Op) -> bool:
        return isinstance(op, Record) and op.event.point is Point.DONE

    with pytest.raises(HazardError):
        run_once(schedule, free_early)


@given(
    num_offloaded=st.integers(0, 9),
    num_kept=st.integers(0, 3),
    depth=st.integers(0, 4),
    more_slots=st.integers(1, 3),
    in_flight=st.integers(0, 4),
)
def test_every_schedule_loads_each_layer_once_and_without_a_hazard(
    num_offloaded: int, num_kept: int, depth: int, more_slots: int, in_flight: int
) -> None:
    schedule = Schedule(
        num_offloaded=num_offloaded,
        num_kept=num_kept,
        depth=depth,
        num_slots=depth + more_slots,
        stores_in_flight=in_flight,
    )
    run_once(schedule)
    names = [type(op).__name__ for op in all_ops(schedule)]
    for each in ("Store", "Load", "Release", "ReturnPlace"):
        assert names.count(each) == num_offloaded, each
    assert names.count("OpenSlots") == names.count("CloseSlots") == (num_offloaded > 0)


@pytest.mark.parametrize("order", ["F(A) F(B) B(A) F(C) B(B) B(C)", "F(A) F(B) B(B) F(C) B(A) B(C)"])
def test_interleaved_graphs_keep_their_own_copies(order: str) -> None:
    link = SimLink()
    graphs = {name: SimGraph(link, prefetched(5), Costs(backward_s=1.0, load_s=1.0), name) for name in "ABC"}
    for step in order.split():
        graph = graphs[step[2]]
        graph.forward() if step[0] == "F" else graph.backward()
    assert link.num_places == 10, "C took the places that the first backward pass gave back"


def test_places_counted_from_the_start_at_every_forward_are_noticed() -> None:
    # the published bug: counters reset at the first forward after a backward, so C writes over B's inputs
    link = SimLink()
    graphs = {name: SimGraph(link, prefetched(5), Costs(backward_s=1.0, load_s=1.0), name) for name in "ABC"}
    graphs["A"].forward()
    graphs["B"].forward()
    graphs["A"].backward()
    link.free_places[:] = range(5, 10)
    graphs["C"].forward()
    with pytest.raises(HazardError):
        graphs["B"].backward()


def test_a_depth_without_slots_is_refused() -> None:
    with pytest.raises(JobError, match="use 3 slots"):
        Schedule(num_offloaded=4, depth=2, num_slots=2)
    with pytest.raises(JobError, match="counts"):
        Schedule(num_offloaded=-1)
