"""What carries a schedule out: three lanes, the memory of one graph, and `carry_out`, the same code for every link.

A link is a set of lanes: CUDA streams (`cuda_link.py`), the caller's thread and a background one (`thread_lanes.py`),
or lines of a simulation (`simulated.py`). What the work *is* (bytes, CUDA copies, simulated seconds) only the memory
behind it knows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from steptune.engine.offload.ops import (
    CloseSlots,
    Event,
    Lane,
    Load,
    Op,
    OpenSlots,
    Record,
    Release,
    ReturnPlace,
    Store,
    Wait,
)

W = TypeVar("W")
W_contra = TypeVar("W_contra", contravariant=True)
W_co = TypeVar("W_co", covariant=True)


class LaneQueue(Protocol[W_contra]):
    """Runs work in order; a mark is opaque, and understood by lanes of the same link."""

    def submit(self, work: W_contra, /) -> None:
        """Run ``work`` behind everything submitted before."""
        ...

    def record(self) -> Any:  # noqa: ANN401
        """Return a mark behind everything submitted before."""
        ...

    def wait(self, mark: Any, /) -> None:  # noqa: ANN401
        """Let nothing submitted from here on run before ``mark``."""
        ...


class Memory(Protocol[W_co]):
    """Where the copies of one graph come from and go to; memory is taken and given back in the caller's order."""

    def store(self, layer: int) -> W_co:
        """Return the copy of a layer's input to its place on the slow side, which is taken here."""
        ...

    def load(self, layer: int, slot: int) -> W_co:
        """Return the copy of a layer's input from its place into a slot."""
        ...

    def release(self, layer: int) -> None:
        """Let go of a layer's original."""
        ...

    def open_slots(self) -> None:
        """Allocate the slots."""
        ...

    def close_slots(self) -> None:
        """Let go of the slots."""
        ...

    def return_place(self, layer: int) -> None:
        """Give a layer's place back."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Lanes(Generic[W]):
    """The three lanes of a link; ``store`` and ``load`` may be one."""

    compute: LaneQueue[W]
    store: LaneQueue[W]
    load: LaneQueue[W]

    def of(self, lane: Lane) -> LaneQueue[W]:
        """Return the queue that runs ``lane``."""
        match lane:
            case Lane.COMPUTE:
                return self.compute
            case Lane.STORE:
                return self.store
            case Lane.LOAD:
                return self.load


def carry_out(ops: Iterable[Op], lanes: Lanes[W], memory: Memory[W], marks: dict[Event, Any]) -> None:
    """Enqueue ``ops``; ``marks`` holds the events of the graph and lives as long as it.

    A wait for an event that was never recorded does nothing, as with CUDA streams: that a schedule contains none is
    for the simulation to show.
    """
    for op in ops:
        match op:
            case Record(lane, event):
                marks[event] = lanes.of(lane).record()
            case Wait(lane, event):
                if event in marks:
                    lanes.of(lane).wait(marks[event])
            case Store(layer):
                lanes.store.submit(memory.store(layer))
            case Load(layer, slot):
                lanes.load.submit(memory.load(layer, slot))
            case _:
                _hand_over(op, memory)


def _hand_over(op: Release | OpenSlots | CloseSlots | ReturnPlace, memory: Memory[Any]) -> None:
    match op:
        case Release(layer):
            memory.release(layer)
        case OpenSlots():
            memory.open_slots()
        case CloseSlots():
            memory.close_slots()
        case ReturnPlace(layer):
            memory.return_place(layer)
