"""Links that a check can bend: offloading on any device, with copies or layers made late, and with waits left out.

The surprise: delaying is what makes a missing wait visible. A copy that is over in time needs no wait; one that
sleeps on its stream first leaves a slot with the wrong numbers in it for whoever did not wait.
"""

import time
from typing import Any, final

import torch
from torch import Tensor

from gpu.site import Site
from steptune.engine.offload.cuda_link import CudaLink, PinnedPlace
from steptune.engine.offload.host_link import HostLink
from steptune.engine.offload.link import Lanes
from steptune.engine.offload.ops import Op, Point, Wait
from steptune.engine.offload.places import MemoryPlace, Place, Pool
from steptune.engine.offload.schedule import Schedule
from steptune.engine.offload.step import Offload

LATE_S = 0.01
"""Long against a copy or a layer of the check's size, on any device."""

SLEEP_CYCLES = 20_000_000
"""About 0.01 s of a GPU's clock at 2 GHz."""


def offload(site: Site, *, depth: int = 1) -> Offload:
    """Return offloading of inputs of any size over the device's own link; depth 0 is serial reloading."""
    if site.is_cuda:
        link = CudaLink(site.device)
        return Offload(lambda: link, is_unified=False, depth=depth, min_bytes=1)
    pool = Pool(_memory_place)
    return Offload(lambda: HostLink(pool), is_unified=False, depth=depth, min_bytes=1)


def be_late(site: Site) -> None:
    """Keep whoever runs this busy: the current stream, or this thread."""
    if site.is_cuda:
        torch.cuda._sleep(SLEEP_CYCLES)
    else:
        time.sleep(LATE_S)


@final
class LateReads:
    """A place whose copies back start late."""

    def __init__(self, site: Site, num_bytes: int, *, is_late: bool) -> None:
        self._site, self._is_late = site, is_late
        self._place: Place = PinnedPlace(num_bytes) if site.is_cuda else MemoryPlace(num_bytes)

    def write(self, source: Tensor) -> None:
        """Copy in."""
        self._place.write(source)

    def read_into(self, target: Tensor) -> None:
        """Copy out, late."""
        if self._is_late:
            be_late(self._site)
        self._place.read_into(target)


@final
class BentLink:
    """The device's lanes over places that may be late."""

    clock = None

    def __init__(self, site: Site, *, is_late: bool) -> None:
        self._link = CudaLink(site.device) if site.is_cuda else HostLink(Pool(_memory_place))
        self.lanes: Lanes[Any] = self._link.lanes
        self.slow = Pool(lambda num_bytes: LateReads(site, num_bytes, is_late=is_late))

    def close(self, *, is_interrupted: bool) -> None:
        """Leave no thread and no copy behind."""
        self._link.close(is_interrupted=is_interrupted)


@final
class WithoutWaits:
    """A schedule that has lost every wait for events of one kind."""

    def __init__(self, schedule: Schedule, point: Point) -> None:
        self._schedule, self._point = schedule, point
        self.num_offloaded, self.num_slots = schedule.num_offloaded, schedule.num_slots
        self.num_layers = schedule.num_layers

    def before_forward(self, layer: int) -> tuple[Op, ...]:
        """Return the schedule's own, less the waits."""
        return self._less(self._schedule.before_forward(layer))

    def after_forward(self, layer: int) -> tuple[Op, ...]:
        """Return the schedule's own, less the waits."""
        return self._less(self._schedule.after_forward(layer))

    def before_backward(self, layer: int) -> tuple[Op, ...]:
        """Return the schedule's own, less the waits."""
        return self._less(self._schedule.before_backward(layer))

    def after_backward(self, layer: int) -> tuple[Op, ...]:
        """Return the schedule's own, less the waits."""
        return self._less(self._schedule.after_backward(layer))

    def _less(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple(op for op in ops if not (isinstance(op, Wait) and op.event.point is self._point))


def _memory_place(num_bytes: int) -> Place:
    return MemoryPlace(num_bytes)
