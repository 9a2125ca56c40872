"""The words of the offload schedule: lanes, events and the operations that a link carries out.

A lane runs its operations in order, lanes run beside each other, and only events order one lane after another.
That is a CUDA stream, a thread with a queue, and a line of a simulation alike.
"""

from enum import StrEnum
from typing import NamedTuple


class Lane(StrEnum):
    """Who runs an operation."""

    COMPUTE = "compute"
    """The layers: the caller's current stream, or its thread."""
    STORE = "store"
    """Copies away from the device."""
    LOAD = "load"
    """Copies back. May be the same queue as `STORE` where the slow side has one arm."""


class Point(StrEnum):
    """What an event says has happened."""

    PRODUCED = "produced"
    """The layer's input is complete."""
    STORED = "stored"
    """Its copy is complete: the original may go."""
    OPENED = "opened"
    """All copies are stored and the slots exist: reloading may begin."""
    LOADED = "loaded"
    """The layer's input is complete again, in its slot."""
    DONE = "done"
    """The layer's backward pass has read its slot for the last time."""


class Event(NamedTuple):
    """``Event(Point.LOADED, 7)``: layer 7's input is back."""

    point: Point
    layer: int


class Record(NamedTuple):
    """Let ``event`` happen when ``lane`` has come this far."""

    lane: Lane
    event: Event


class Wait(NamedTuple):
    """Let ``lane`` go no further before ``event``."""

    lane: Lane
    event: Event


class Store(NamedTuple):
    """Copy the layer's input away (on `Lane.STORE`)."""

    layer: int


class Load(NamedTuple):
    """Copy the layer's input back into a slot (on `Lane.LOAD`)."""

    layer: int
    slot: int


class Release(NamedTuple):
    """Let go of the layer's original input; from here its memory may be anything else."""

    layer: int


class OpenSlots(NamedTuple):
    """Allocate the slots (on `Lane.COMPUTE`, whose memory they come from)."""


class CloseSlots(NamedTuple):
    """Let go of the slots."""


class ReturnPlace(NamedTuple):
    """Give the layer's place on the slow side back: the next graph may write there."""

    layer: int


Op = Record | Wait | Store | Load | Release | OpenSlots | CloseSlots | ReturnPlace
