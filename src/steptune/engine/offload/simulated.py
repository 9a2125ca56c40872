"""A link of virtual time that also sees races: the schedule can be judged without a GPU, and without luck.

Time: every lane has a clock; work starts when the lane, the host that enqueued it and the marks it waited for are
ready. Order: every lane carries a vector clock, joined at waits. Two accesses to the same memory, one of them a
write, that no chain of marks orders are a `Hazard`, *whatever the durations were in this run*. So a missing wait is
found even where the timing happens to hide it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

from steptune.engine.offload.link import Lanes, carry_out
from steptune.engine.offload.ops import Event, Op
from steptune.engine.offload.schedule import Schedule

Cell = tuple[str, int]
"""A piece of memory: ``("original", 3)``, ``("place", 0)``, ``("slot", 1)``."""

Ticks = dict[str, int]
"""How many works of each lane are known to be over."""


class HazardError(AssertionError):
    """Memory was read before it was filled, or overwritten before it was used."""


class Access(NamedTuple):
    """One work's use of one cell: the content it expects to read, or leaves behind."""

    cell: Cell
    content: object
    is_write: bool


class SimWork(NamedTuple):
    """``SimWork(0.005, (Access(("place", 3), ..., False), Access(("slot", 1), ..., True)))``: 5 ms of copying."""

    duration_s: float
    accesses: tuple[Access, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SimMark:
    """When a lane was there, and what was over by then."""

    time_s: float
    ticks: Ticks


@dataclass(kw_only=True, slots=True)
class _Cell:
    content: object = None
    writer: tuple[str, int] | None = None
    readers: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


@final
class SimHost:
    """The thread that enqueues, and the memory all lanes share."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._cells: dict[Cell, _Cell] = {}

    def use(self, access: Access, lane: str, ticks: Ticks) -> None:
        """Check one access against everything known about its cell.

        Raises:
            HazardError: it is not ordered behind an earlier access, or finds another content.
        """
        cell = self._cells.setdefault(access.cell, _Cell())
        before = [cell.writer, *(cell.readers if access.is_write else ())]
        for other in before:
            if other is not None and ticks.get(other[0], 0) < other[1]:
                what = "overwritten before use" if access.is_write else "read before copy"
                raise HazardError(f"{access.cell} {what}: {lane} does not wait for {other[0]}")
        if access.is_write:
            cell.content, cell.writer, cell.readers = access.content, (lane, ticks[lane]), []
        elif cell.content != access.content:
            raise HazardError(f"{access.cell} holds {cell.content}, {lane} expects {access.content}")
        else:
            cell.readers.append((lane, ticks[lane]))


@final
class SimLane:
    """One line of virtual time."""

    def __init__(self, name: str, host: SimHost) -> None:
        self.name = name
        self.ready_s = 0.0
        self._host = host
        self._ticks: Ticks = {name: 0}

    def submit(self, work: SimWork) -> None:
        """Run ``work`` as early as lane and host allow.

        Raises:
            HazardError: it races with an earlier work.
        """
        self.ready_s = max(self.ready_s, self._host.now_s) + work.duration_s
        self._ticks[self.name] += 1
        for access in work.accesses:
            self._host.use(access, self.name, self._ticks)

    def record(self) -> SimMark:
        """Return a mark behind everything submitted before."""
        return SimMark(time_s=self.ready_s, ticks=dict(self._ticks))

    def wait(self, mark: SimMark) -> None:
        """Start nothing before ``mark``."""
        self.ready_s = max(self.ready_s, mark.time_s)
        for lane, tick in mark.ticks.items():
            self._ticks[lane] = max(self._ticks.get(lane, 0), tick)

    def synchronize(self) -> None:
        """Hold the host until the lane is through, as `.item()` does."""
        self._host.now_s = max(self._host.now_s, self.ready_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Seconds of one layer and one copy: ``Costs(forward_s=0.003, backward_s=0.010, store_s=0.005, load_s=0.005)``."""

    forward_s: float = 0.0
    backward_s: float
    store_s: float = 0.0
    load_s: float


@final
class SimLink:
    """Lanes, clock and the shared memory of a simulated device; graphs of one link can be interleaved."""

    def __init__(self) -> None:
        self.host = SimHost()
        self.compute, self.store, self.load = (SimLane(name, self.host) for name in ("compute", "store", "load"))
        self.lanes: Lanes[SimWork] = Lanes(compute=self.compute, store=self.store, load=self.load)
        self.free_places: list[int] = []
        self.num_places = 0
        self.num_slots = 0

    def take_place(self) -> int:
        """Return a place on the slow side, a used one if there is any."""
        if self.free_places:
            return self.free_places.pop()
        self.num_places += 1
        return self.num_places - 1


@final
class SimGraph:
    """One forward and backward pass over a `SimLink`; also the memory that `carry_out` asks for work."""

    def __init__(self, link: SimLink, schedule: Schedule, costs: Costs, name: str = "A") -> None:
        self._link, self._schedule, self._costs, self._name = link, schedule, costs, name
        self._marks: dict[Event, SimMark] = {}
        self._place: dict[int, int] = {}
        self._first_slot = 0

    def forward(self, edit: Callable[[Sequence[Op]], Sequence[Op]] = tuple) -> None:
        """Run every layer; ``edit`` may change the operations (to show that it is noticed)."""
        for layer in range(self._schedule.num_layers):
            self._touch(0.0, self._write(self._original(layer), layer))
            self._carry_out(edit(self._schedule.before_forward(layer)))
            self._touch(self._costs.forward_s, self._read(self._original(layer), layer))
            self._carry_out(edit(self._schedule.after_forward(layer)))

    def backward(self, edit: Callable[[Sequence[Op]], Sequence[Op]] = tuple, *, is_host_synced: bool = False) -> None:
        """Run every layer again, last first; ``is_host_synced`` lets the host wait inside each."""
        for layer in reversed(range(self._schedule.num_layers)):
            self._carry_out(edit(self._schedule.before_backward(layer)))
            is_kept = layer >= self._schedule.num_offloaded
            cell = self._original(layer) if is_kept else self._slot(layer % self._schedule.num_slots)
            self._touch(self._costs.backward_s, self._read(cell, layer))
            if is_host_synced:
                self._link.compute.synchronize()
            self._carry_out(edit(self._schedule.after_backward(layer)))

    def store(self, layer: int) -> SimWork:
        """Read the original, write a place."""
        self._place[layer] = self._link.take_place()
        cell = ("place", self._place[layer])
        return SimWork(self._costs.store_s, (self._read(self._original(layer), layer), self._write(cell, layer)))

    def load(self, layer: int, slot: int) -> SimWork:
        """Read the place, write a slot."""
        cell = ("place", self._place[layer])
        return SimWork(self._costs.load_s, (self._read(cell, layer), self._write(self._slot(slot), layer)))

    def release(self, layer: int) -> None:
        """The allocator may hand the original to the next kernel of the compute lane: that is a write."""
        self._touch(0.0, Access(self._original(layer), "freed", True))

    def open_slots(self) -> None:
        """Slots come from memory that the compute lane used last."""
        self._first_slot = self._link.num_slots
        self._link.num_slots += self._schedule.num_slots
        self._touch(0.0, *self._all_slots("allocated"))

    def close_slots(self) -> None:
        """As with originals, freeing is a write of the compute lane."""
        self._touch(0.0, *self._all_slots("freed"))

    def return_place(self, layer: int) -> None:
        """The next store of any graph may take it."""
        self._link.free_places.append(self._place.pop(layer))

    def _carry_out(self, ops: Sequence[Op]) -> None:
        carry_out(ops, self._link.lanes, self, self._marks)

    def _touch(self, duration_s: float, *accesses: Access) -> None:
        self._link.compute.submit(SimWork(duration_s, accesses))

    def _original(self, layer: int) -> Cell:
        return (f"original of {self._name}", layer)

    def _slot(self, slot: int) -> Cell:
        return ("slot", self._first_slot + slot)

    def _all_slots(self, content: str) -> list[Access]:
        return [Access(self._slot(slot), content, True) for slot in range(self._schedule.num_slots)]

    def _read(self, cell: Cell, layer: int) -> Access:
        return Access(cell, (self._name, layer), False)

    def _write(self, cell: Cell, layer: int) -> Access:
        return Access(cell, (self._name, layer), True)
