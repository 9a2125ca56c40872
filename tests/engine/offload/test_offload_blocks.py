"""Offloaded blocks against kept and recomputed ones, and what is left behind when things go wrong."""

import weakref
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import final

import pytest
import torch
from offload_cases import NUM_LAYERS, CountedPool, Stack, TinyBlock, copier_threads, equal
from torch import Tensor

from steptune.core.errors import TrialError
from steptune.engine.offload.blocks import recompute_block
from steptune.engine.offload.graph import GraphMemory
from steptune.engine.offload.host_link import HostLink
from steptune.engine.offload.link import Lanes
from steptune.engine.offload.ops import Event, Lane, Op, Point, Wait
from steptune.engine.offload.places import FilePlaces, MemoryPlace
from steptune.engine.offload.schedule import Schedule
from steptune.engine.offload.step import Offload
from steptune.engine.offload.thread_lanes import CallerLane, Work


def gradients(stack: Stack, recompute: bool, seed: int = 0, *, bf16: bool = False) -> list[Tensor | None]:
    """Return plain gradients of one batch."""
    stack.loss(recompute, seed, torch.autocast("cpu", torch.bfloat16, enabled=bf16)).backward()
    return stack.take_gradients()


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize(("depth", "in_flight"), [(0, 1), (1, 1), (2, 0), (4, 3), (9, 9)])
def test_offloaded_gradients_are_those_of_keep_and_recompute_bit_for_bit(
    depth: int, in_flight: int, *, bf16: bool
) -> None:
    stack = Stack()
    kept, again = gradients(stack, False, bf16=bf16), gradients(stack, True, bf16=bf16)
    with CountedPool().offload(depth=depth, stores_in_flight=in_flight).step() as step:
        stack.loss(step, 0, torch.autocast("cpu", torch.bfloat16, enabled=bf16)).backward()
    mine = stack.take_gradients()
    assert equal(mine, kept)
    assert equal(mine, again)
    assert sum(grad is None for grad in mine) == NUM_LAYERS, "unused parameters have no gradient, not zero"


def test_casts_made_without_a_graph_are_not_found_by_a_later_forward_of_the_same_autocast() -> None:
    stack = Stack()
    kept = gradients(stack, False, bf16=True)
    with CountedPool().offload().step() as step:
        with torch.autocast("cpu", torch.bfloat16):
            stack.loss(step)
            later = stack.loss(False)
        later.backward()
    assert equal(stack.take_gradients(), kept)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    stack, places = Stack(), FilePlaces(tmp_path)
    kept = gradients(stack, False)
    with CountedPool(places.make).offload().step() as step:
        stack.loss(step).backward()
    assert equal(stack.take_gradients(), kept)
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    places.close()


def test_autograd_grad_works_with_respect_to_inputs_and_weights() -> None:
    stack = Stack()
    wanted = [stack.embed, *(block.up for block in stack.blocks if isinstance(block, TinyBlock))]
    kept = torch.autograd.grad(stack.loss(False), wanted)
    with CountedPool().offload().step() as step:
        mine = torch.autograd.grad(stack.loss(step), wanted)
    assert equal(list(mine), list(kept))


def test_frozen_blocks_and_forwards_without_gradients_work() -> None:
    stack, pool = Stack(), CountedPool()
    for parameter in stack.blocks.parameters():
        parameter.requires_grad_(False)
    kept = gradients(stack, False)
    with pool.offload().step() as step:
        stack.loss(step).backward()
        assert equal(stack.take_gradients(), kept)
    fresh = CountedPool()
    with fresh.offload().step() as step, torch.no_grad():
        assert torch.equal(stack.loss(step), stack.loss(False))
    assert fresh.pool.num_made == 0, "a forward without gradients copies nothing"


def test_an_input_that_is_not_contiguous_stays_where_it_is() -> None:
    with CountedPool().offload().step() as step:
        assert step.run_blocks(NUM_LAYERS, torch.ones(4, 3).t()) is recompute_block
        assert step.run_blocks(NUM_LAYERS, torch.ones(4, 3)) is not recompute_block


def test_blocks_below_the_first_trained_one_are_never_run_again() -> None:
    stack, pool = Stack(), CountedPool()
    stack.embed.requires_grad_(False)
    for block in stack.blocks[:3]:
        block.requires_grad_(False)
    kept = gradients(stack, False)
    with pool.offload().step() as step:
        stack.loss(step).backward()
    assert equal(stack.take_gradients(), kept)
    assert (copier_threads(), pool.pool.num_taken) == (0, 0)


@pytest.mark.parametrize("order", ["F(A) F(B) B(A) F(C) B(B) B(C)", "F(A) F(B) B(B) F(C) B(C) B(A)"])
def test_interleaved_graphs_have_their_own_inputs(order: str) -> None:
    stack, pool = Stack(), CountedPool()
    kept = {name: gradients(stack, False, ord(name)) for name in "ABC"}
    losses: dict[str, Tensor] = {}
    with pool.offload().step() as step:
        for action, name in ((word[0], word[2]) for word in order.split()):
            if action == "F":
                losses[name] = stack.loss(step, ord(name))
            else:
                losses[name].backward()
                assert equal(stack.take_gradients(), kept[name]), f"{order}: {name}"
    assert pool.pool.num_made == 2 * (NUM_LAYERS - 1), "C takes the places of the first that was over"


def test_a_second_backward_pass_is_refused_and_says_what_to_do() -> None:
    stack = Stack()
    with CountedPool().offload().step() as step:
        loss = stack.loss(step)
        loss.backward(retain_graph=True)
        with pytest.raises(TrialError, match=r"one backward pass.*run backward once"):
            loss.backward()


def test_a_backward_pass_after_its_step_is_refused() -> None:
    stack, pool = Stack(), CountedPool()
    with pool.offload().step() as step:
        loss = stack.loss(step)
        assert pool.pool.num_taken == NUM_LAYERS - 1
    assert pool.pool.num_taken == 0, "a graph whose backward never came gives its places back"
    with pytest.raises(TrialError, match="whose step is over"):
        loss.backward()


def test_the_copier_thread_lives_from_the_first_copy_to_the_end_of_its_step() -> None:
    stack, pool = Stack(), CountedPool()
    offload = pool.offload()
    for _ in range(3):
        with offload.step() as step:
            assert copier_threads() == 0
            loss = stack.loss(step)
            assert copier_threads() == 1
            loss.backward()
        assert copier_threads() == 0
    assert pool.pool.num_made == NUM_LAYERS - 1, "later steps use the places of the first"
    assert offload.layer_s is not None
    assert offload.copy_s is not None


@pytest.mark.parametrize("layer", [0, 2, NUM_LAYERS - 1])
@pytest.mark.parametrize("is_backward", [False, True])
def test_an_exception_inside_a_layer_leaves_no_thread_slot_or_place(layer: int, *, is_backward: bool) -> None:
    stack, pool = Stack(), CountedPool()
    kept = gradients(stack, False)
    calls = count()
    block = stack.blocks[layer]
    assert isinstance(block, TinyBlock)
    block.fail = lambda: next(calls) == is_backward
    offload = pool.offload()
    with pytest.raises(ArithmeticError, match="a layer failed"), offload.step() as step:
        stack.loss(step).backward()
    assert (copier_threads(), pool.pool.num_taken) == (0, 0)
    stack.take_gradients()
    with offload.step() as step:
        stack.loss(step).backward()
    assert equal(stack.take_gradients(), kept), "the next step is as if nothing had happened"


@final
class FullDisk:
    """A place that fails to be written or read."""

    def __init__(self, num_bytes: int, *, fails_on_write: bool) -> None:
        self._place, self._fails_on_write = MemoryPlace(num_bytes), fails_on_write

    def write(self, source: Tensor) -> None:
        """Fail, or copy in."""
        if self._fails_on_write:
            raise OSError("no space left on device")
        self._place.write(source)

    def read_into(self, target: Tensor) -> None:
        """Fail."""
        raise OSError("input/output error")


@pytest.mark.parametrize(("fails_on_write", "message"), [(True, "no space left"), (False, "input/output error")])
def test_a_copy_that_fails_fails_the_step_and_nobody_hangs(*, fails_on_write: bool, message: str) -> None:
    pool = CountedPool(lambda num_bytes: FullDisk(num_bytes, fails_on_write=fails_on_write))
    with pytest.raises(OSError, match=message), pool.offload().step() as step:
        Stack().loss(step).backward()
    assert (copier_threads(), pool.pool.num_taken) == (0, 0)


@pytest.mark.parametrize(("kwargs", "num_layers"), [({"is_unified": True}, 5), ({}, 2)])
def test_where_it_cannot_help_blocks_are_recomputed_and_no_thread_starts(
    kwargs: dict[str, bool], num_layers: int
) -> None:
    stack, pool = Stack(num_layers), CountedPool()
    offload = pool.offload(**kwargs)
    kept = gradients(stack, False)
    with offload.step() as step:
        loss = stack.loss(step)
        assert (copier_threads(), pool.pool.num_made) == (0, 0)
        loss.backward()
        assert equal(stack.take_gradients(), kept)
    assert offload.decision is not None
    assert not offload.decision.is_on


def live_inputs(recompute: Callable[[Stack], Tensor]) -> int:
    """Return how many block inputs are alive between forward and backward."""
    stack = Stack(8)
    seen = list[weakref.ref[torch.UntypedStorage]]()
    for block in stack.blocks:
        block.register_forward_pre_hook(lambda _module, args: seen.append(weakref.ref(args[0].untyped_storage())))
    loss = recompute(stack)
    alive = sum(ref() is not None for ref in seen)
    loss.backward()
    return alive


def test_between_forward_and_backward_only_the_last_inputs_are_on_the_device() -> None:
    with CountedPool().offload().step() as step:
        assert live_inputs(lambda stack: stack.loss(step)) <= 2
    assert live_inputs(lambda stack: stack.loss(True)) == 8, "plain recompute holds every input"


@final
class LateLane:
    """A copier as late as the schedule allows: it copies only when somebody waits for a mark behind the copy."""

    def __init__(self) -> None:
        self.queue: list[Work] = []

    def submit(self, work: Work) -> None:
        """Put off."""
        self.queue.append(work)

    def record(self) -> "LateMark":
        """Return a mark that runs what is before it when it is waited for."""
        return LateMark(self, len(self.queue))

    def wait(self, mark: object) -> None:
        """Everything of the caller's lane has run when it is enqueued."""


@final
class LateMark:
    """See `LateLane`."""

    def __init__(self, lane: LateLane, num_works: int) -> None:
        self.lane, self.num_works = lane, num_works

    def wait(self) -> None:
        """Run the copies before this mark, once."""
        for number in range(self.num_works):
            work, self.lane.queue[number] = self.lane.queue[number], lambda: None
            work()


@final
class LateLink:
    """The caller's lane and a late copier."""

    clock = None

    def __init__(self, pool: CountedPool) -> None:
        self.slow = pool.pool
        late = LateLane()
        self.lanes: Lanes[Work] = Lanes(compute=CallerLane(), store=late, load=late)

    def close(self, *, is_interrupted: bool) -> None:
        """Nothing runs."""


def late_gradients(drop: Wait | None, monkeypatch: pytest.MonkeyPatch) -> list[Tensor | None]:
    """Return gradients over the late link with one wait left out, and slots that hold NaN before their first copy."""
    real_ops, real_open = Schedule.before_backward, GraphMemory.open_slots

    def before_backward(self: Schedule, layer: int) -> tuple[Op, ...]:
        return tuple(op for op in real_ops(self, layer) if op != drop)

    def open_slots(self: GraphMemory) -> None:
        real_open(self)
        for slot in self.slots:
            slot.fill_(torch.nan)

    stack, pool = Stack(), CountedPool()
    with monkeypatch.context() as patch:
        patch.setattr(Schedule, "before_backward", before_backward)
        patch.setattr(GraphMemory, "open_slots", open_slots)
        with Offload(lambda: LateLink(pool), is_unified=False, min_bytes=1).step() as step:
            stack.loss(step).backward()
    return stack.take_gradients()


def test_real_tensors_show_a_missing_wait_of_any_layer_as_other_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = gradients(Stack(), False)
    assert equal(late_gradients(None, monkeypatch), kept)
    for layer in range(NUM_LAYERS - 1):
        dropped = Wait(Lane.COMPUTE, Event(Point.LOADED, layer))
        assert not equal(late_gradients(dropped, monkeypatch), kept), f"layer {layer}"


@pytest.mark.parametrize("is_run_backward", [True, False])
def test_a_link_is_told_whether_copies_may_still_be_running(*, is_run_backward: bool) -> None:
    told, pool, stack = list[bool](), CountedPool(), Stack()

    def make_link() -> HostLink:
        link = HostLink(pool.pool)
        close = link.close

        def told_close(*, is_interrupted: bool) -> None:
            told.append(is_interrupted)
            close(is_interrupted=is_interrupted)

        link.close = told_close  # type: ignore[method-assign]
        return link

    with Offload(make_link, is_unified=False, min_bytes=1).step() as step:
        loss = stack.loss(step)
        if is_run_backward:
            loss.backward()
    assert told == [not is_run_backward]
