"""One forward and its backward: runs the schedule over a link, with this graph's own places and slots.

Everything is the graph's own, so `F(A) F(B) B(A) F(C) B(B)` is nothing special: the published bug of one counter for
all graphs cannot be written here. A graph is used once. A second backward pass through it finds its copies gone and is
refused, where a shared arena would have handed it somebody else's.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, final

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.engine.offload.link import Lanes, carry_out
from steptune.engine.offload.ops import Event
from steptune.engine.offload.places import Place, SlowSide
from steptune.engine.offload.schedule import Schedule
from steptune.engine.offload.thread_lanes import Work


class Link(Protocol):
    """Lanes, and a slow side that they copy to."""

    @property
    def lanes(self) -> Lanes[Work]:
        """Who runs what."""
        ...

    @property
    def slow(self) -> SlowSide:
        """Where inputs wait."""
        ...

    @property
    def clock(self) -> Callable[[], float] | None:
        """Seconds, as seen by whoever runs a copy; None where that is not the host."""
        ...

    def close(self, *, is_interrupted: bool) -> None:
        """Leave no thread behind; where ``is_interrupted``, no copy that nobody has waited for either."""
        ...


class Kind(NamedTuple):
    """What all layer inputs of a graph share."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


@final
class GraphMemory:
    """Originals, places and slots of one graph; all layer inputs have one shape and number format."""

    def __init__(self, slow: SlowSide, num_slots: int, clock: Callable[[], float] | None) -> None:
        self._slow, self._num_slots, self._clock = slow, num_slots, clock
        self._originals: dict[int, Tensor] = {}
        self._places: dict[int, Place] = {}
        self._kind: Kind | None = None
        self.slots: list[Tensor] = []
        self.load_s = list[float]()

    def hold(self, layer: int, x: Tensor) -> None:
        """Keep ``x`` alive until it is released."""
        kind = Kind(x.shape, x.dtype, x.device)
        assert self._kind in (None, kind), f"layer {layer}'s input is {kind}, the first was {self._kind}"
        self._kind = kind
        self._originals[layer] = x.detach()

    def store(self, layer: int) -> Work:
        """Take a place and return the copy into it."""
        x = self._originals[layer]
        place = self._places[layer] = self._slow.take(x.nbytes)
        return lambda: place.write(x)

    def load(self, layer: int, slot: int) -> Work:
        """Return the copy from the layer's place into ``slot``."""
        place, target, clock = self._places[layer], self.slots[slot], self._clock

        def copy() -> None:
            start_s = clock() if clock else 0.0
            place.read_into(target)
            if clock:
                self.load_s.append(clock() - start_s)

        return copy

    def release(self, layer: int) -> None:
        """Let go of an original."""
        del self._originals[layer]

    def open_slots(self) -> None:
        """Allocate slots like the inputs, on their device."""
        assert self._kind is not None, "slots are opened after a forward pass"
        shape, dtype, device = self._kind
        self.slots = [torch.empty(shape, dtype=dtype, device=device) for _ in range(self._num_slots)]

    def close_slots(self) -> None:
        """Let go of the slots."""
        self.slots = []

    def return_place(self, layer: int) -> None:
        """Give a place back."""
        self._slow.give_back(self._places.pop(layer))

    def let_go(self) -> None:
        """Give everything back, wherever the graph stands; no copy may be running."""
        for layer in list(self._places):
            self.return_place(layer)
        self._originals.clear()
        self.slots = []


@final
class Graph:
    """The life of one forward and backward pass over a link.

    Layers come first to last, then last to first, each once.
    """

    def __init__(self, schedule: Schedule, link: Link) -> None:
        self.schedule: Final = schedule
        self.memory: Final = GraphMemory(link.slow, schedule.num_slots, link.clock)
        self._lanes = link.lanes
        self._marks: dict[Event, Any] = {}
        self._next_backward: int | None = schedule.num_layers - 1
        self._clock = link.clock
        self._began_s = 0.0
        self.layer_s = list[float]()

    @property
    def is_over(self) -> bool:
        """Whether every layer's backward pass has run, or the graph was given up."""
        return self._next_backward is None

    def before_forward(self, layer: int, x: Tensor) -> None:
        """Start copying ``x``, the layer's input, away (if this layer's is offloaded)."""
        if layer < self.schedule.num_offloaded:
            self.memory.hold(layer, x)
        carry_out(self.schedule.before_forward(layer), self._lanes, self.memory, self._marks)

    def after_forward(self, layer: int) -> None:
        """Let go of the original that is stored by now."""
        carry_out(self.schedule.after_forward(layer), self._lanes, self.memory, self._marks)

    def before_backward(self, layer: int) -> Tensor | None:
        """Enqueue the copies ahead, wait for this layer's, and return it; None for a layer that was kept.

        The tensor is a slot: it may be read until `after_backward`.

        Raises:
            TrialError: the graph has been run backward before, or its step is over.
        """
        if layer != self._next_backward:
            what = f"layer {layer}'s input is no longer there: offloaded activations are good for one backward pass"
            got = (
                "a graph that was run backward, or whose step is over" if self.is_over else f"layer {layer} out of turn"
            )
            hint = "run backward once inside the step, or switch `offload` off"
            raise TrialError(explain(what, got=got, allowed="one backward pass, layer by layer", hint=hint))
        self._next_backward = layer - 1 if layer else None
        carry_out(self.schedule.before_backward(layer), self._lanes, self.memory, self._marks)
        self._began_s = self._clock() if self._clock else 0.0
        return self.memory.slots[layer % self.schedule.num_slots] if layer < self.schedule.num_offloaded else None

    def after_backward(self, layer: int) -> None:
        """Free the layer's slot and place."""
        if self._clock:
            self.layer_s.append(self._clock() - self._began_s)
        carry_out(self.schedule.after_backward(layer), self._lanes, self.memory, self._marks)

    def give_up(self) -> None:
        """Let go of everything; the link must be closed, so that no copy is running."""
        self._next_backward = None
        self.memory.let_go()
