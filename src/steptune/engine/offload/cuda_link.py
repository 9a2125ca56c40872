"""The link of one CUDA device: two side streams, events, pinned host memory. Written for a GPU and **not run on one**.

Lanes are streams and marks are events, so the schedule is the one that the simulation checks. What is CUDA's own:

- the compute lane is the stream that is *current when an operation is enqueued*, never one captured earlier: autograd
  runs a backward node on the stream of its forward;
- host places are pinned once and kept: pinning is slow, and a copy from pageable memory is not asynchronous;
- every tensor that a side stream touches is also told to the allocator (`record_stream`). The schedule's waits make
  that redundant in a step that ends; an exception in between could otherwise hand the memory on too early.
"""

from collections.abc import Callable
from typing import Final, final

import torch
from torch import Tensor

from steptune.engine.offload.link import Lanes
from steptune.engine.offload.places import Place, Pool, new_buffer
from steptune.engine.offload.thread_lanes import Work


@final
class CurrentStreamLane:
    """The stream that is current at each call."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def submit(self, work: Work) -> None:
        """Enqueue ``work``'s kernels."""
        work()

    def record(self) -> torch.cuda.Event:
        """Return an event behind everything enqueued before."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Let the device, not the host, wait."""
        torch.cuda.current_stream(self._device).wait_event(mark)


@final
class SideStreamLane:
    """A stream of copies in one direction."""

    def __init__(self, device: torch.device) -> None:
        self._stream: Final = torch.cuda.Stream(device)

    def submit(self, work: Work) -> None:
        """Enqueue ``work``'s copies."""
        with torch.cuda.stream(self._stream):
            work()

    def record(self) -> torch.cuda.Event:
        """Return an event behind everything enqueued before."""
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Let the stream wait."""
        self._stream.wait_event(mark)

    def synchronize(self) -> None:
        """Block the host until the copies are over."""
        self._stream.synchronize()


@final
class PinnedPlace:
    """Page-locked host memory, copied on the current stream."""

    def __init__(self, num_bytes: int) -> None:
        self._buffer = new_buffer(num_bytes, torch.device("cpu"), is_pinned=True)

    def write(self, source: Tensor) -> None:
        """Enqueue the copy to the host."""
        self._buffer.copy_(_device_bytes(source), non_blocking=True)

    def read_into(self, target: Tensor) -> None:
        """Enqueue the copy to the device."""
        _device_bytes(target).copy_(self._buffer, non_blocking=True)


@final
class CudaLink:
    """Two side streams of one device and its pool of pinned places; one object for all steps."""

    def __init__(self, device: torch.device) -> None:
        self.clock: Final[Callable[[], float] | None] = None  # the host's clock sees enqueueing, not copying
        self.slow: Final = Pool(_pinned_place)
        self._store, self._load = SideStreamLane(device), SideStreamLane(device)
        self.lanes: Final[Lanes[Work]] = Lanes(compute=CurrentStreamLane(device), store=self._store, load=self._load)

    def close(self, *, is_interrupted: bool) -> None:
        """Wait for the copies of graphs that were given up: their places may then be written.

        A graph that ended had every copy waited for by a layer, on the device: the host need not wait at all.
        """
        if is_interrupted:
            self._store.synchronize()
            self._load.synchronize()


def _pinned_place(num_bytes: int) -> Place:
    return PinnedPlace(num_bytes)


def _device_bytes(tensor: Tensor) -> Tensor:
    tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor.detach().view(-1).view(torch.uint8)
