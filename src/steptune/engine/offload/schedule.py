"""When each layer input is copied, and what each copy and each layer must wait for. Pure: no torch, no clock.

Layers ``0 .. num_offloaded-1`` are copied away in the forward pass and back in the backward pass; the last
``num_kept`` stay, since the backward pass needs them first. Depth 1 and two slots, backward, ``N`` kept::

    compute | N      | wait loaded N-1 | N-1  done | wait loaded N-2 | N-2  done | ...
    load    | load N-1 into a         | load N-2 into b  | wait done N-1 | load N-3 into a | ...

The surprise is what separates the three ways of reloading: nothing but two numbers. A copy is *enqueued* when
the host reaches layer ``i + depth``, and may *run* when its slot is free.

- depth 0, one slot: serial. The copy starts when the layer above is done, the layer waits for the copy.
- depth 0, two slots: lazy double buffering. The copy could run a layer early, if the host were there to enqueue
  it: a host that waits inside a layer (`.item()`, `.tolist()`) is not, and the gain is gone.
- depth k, k + 1 slots: prefetched. Layer i's backward enqueues the copies of i-1 .. i-k before it computes.

Every wait is needed (a test removes each in turn). Each load waits for exactly one event: the first for
`OPENED`, which comes after all stores; one that is the first in its slot for nothing of its own (the lane is in
order behind the first); every other for the `DONE` of its slot's last user.
"""

from dataclasses import dataclass

from steptune.core.errors import JobError, explain
from steptune.engine.offload.ops import (
    CloseSlots,
    Event,
    Lane,
    Load,
    Op,
    OpenSlots,
    Point,
    Record,
    Release,
    ReturnPlace,
    Store,
    Wait,
)

OPENED = Event(Point.OPENED, 0)
"""There is one a graph."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """One graph's copies: ``Schedule(num_offloaded=11, num_kept=1, depth=1, num_slots=2)`` for 12 layers.

    Raises:
        JobError: a count is impossible, or the slots do not hold what the depth prefetches.
    """

    num_offloaded: int
    """Layers whose input goes away; 0 makes every method return nothing to do."""
    num_kept: int = 1
    """Layers behind them whose input stays on the device."""
    depth: int = 1
    """Layers ahead of the running one whose copies are enqueued before it computes."""
    num_slots: int = 2
    """Inputs on the device at once in the backward pass."""
    stores_in_flight: int = 1
    """Layers the forward pass may be ahead of the copies: as many originals are held beside the running one."""

    def __post_init__(self) -> None:
        """Refuse what cannot be carried out."""
        counts = (self.num_offloaded, self.num_kept, self.depth, self.stores_in_flight)
        if min(counts) < 0 or self.num_slots < 1:
            raise JobError(
                explain("an offload schedule counts", got=self, allowed="0 or more, one slot", hint="fix it")
            )
        if self.depth >= self.num_slots:
            what = "prefetched copies need a slot each, beside the running layer's"
            got = f"depth {self.depth} with {self.num_slots} slots"
            raise JobError(explain(what, got=got, allowed="depth < slots", hint=f"use {self.depth + 1} slots"))

    @property
    def num_layers(self) -> int:
        """All layers of the graph."""
        return self.num_offloaded + self.num_kept

    def before_forward(self, layer: int) -> tuple[Op, ...]:
        """Return what to enqueue when ``layer``'s input exists and the layer has not run."""
        if layer >= self.num_offloaded:
            return ()
        produced, stored = Event(Point.PRODUCED, layer), Event(Point.STORED, layer)
        return (
            Record(Lane.COMPUTE, produced),
            Wait(Lane.STORE, produced),
            Store(layer),
            Record(Lane.STORE, stored),
        )

    def after_forward(self, layer: int) -> tuple[Op, ...]:
        """Return what to enqueue behind ``layer``: the original that may now go."""
        old = layer - self.stores_in_flight
        if not 0 <= old < self.num_offloaded:
            return ()
        return (Wait(Lane.COMPUTE, Event(Point.STORED, old)), Release(old))

    def before_backward(self, layer: int) -> tuple[Op, ...]:
        """Return what to enqueue before ``layer`` is run again: prefetches first, then its own wait."""
        is_top = layer == self.num_layers - 1
        ops = [*self._open()] if is_top else []
        highest = self.num_offloaded if is_top else min(self.num_offloaded, self._lowest(layer + 1))
        for ahead in range(highest - 1, self._lowest(layer) - 1, -1):
            ops += self._load(ahead)
        if layer < self.num_offloaded:
            ops.append(Wait(Lane.COMPUTE, Event(Point.LOADED, layer)))
        return tuple(ops)

    def after_backward(self, layer: int) -> tuple[Op, ...]:
        """Return what to enqueue behind ``layer``'s backward pass: its slot and its place are free."""
        if layer >= self.num_offloaded:
            return ()
        done: tuple[Op, ...] = (Record(Lane.COMPUTE, Event(Point.DONE, layer)),) if layer >= self.num_slots else ()
        end: tuple[Op, ...] = (CloseSlots(),) if layer == 0 else ()
        return (*done, ReturnPlace(layer), *end)

    def _lowest(self, layer: int) -> int:
        """Return the lowest layer whose copy is enqueued by the time ``layer`` runs."""
        return max(0, layer - self.depth)

    def _open(self) -> tuple[Op, ...]:
        """Let the last originals go and make the slots."""
        if self.num_offloaded == 0:
            return ()
        first_held = max(0, self.num_layers - self.stores_in_flight)
        held = range(first_held, self.num_offloaded)
        # the store lane is in order: the last copy's event stands for all of them
        wait: tuple[Op, ...] = (Wait(Lane.COMPUTE, Event(Point.STORED, self.num_offloaded - 1)),) if held else ()
        return (*wait, *map(Release, held), OpenSlots(), Record(Lane.COMPUTE, OPENED))

    def _load(self, layer: int) -> tuple[Op, ...]:
        former = layer + self.num_slots
        wait: tuple[Op, ...] = ()
        if layer == self.num_offloaded - 1:
            wait = (Wait(Lane.LOAD, OPENED),)
        elif former < self.num_offloaded:
            wait = (Wait(Lane.LOAD, Event(Point.DONE, former)),)
        loaded = Record(Lane.LOAD, Event(Point.LOADED, layer))
        return (*wait, Load(layer, layer % self.num_slots), loaded)


def serial(num_offloaded: int, *, num_kept: int = 1) -> Schedule:
    """Return the single-buffer baseline: every copy is exposed."""
    return Schedule(num_offloaded=num_offloaded, num_kept=num_kept, depth=0, num_slots=1)


def lazy(num_offloaded: int, *, num_kept: int = 1) -> Schedule:
    """Return lazy double buffering: overlap only as far as the host runs ahead."""
    return Schedule(num_offloaded=num_offloaded, num_kept=num_kept, depth=0, num_slots=2)


def prefetched(num_offloaded: int, *, num_kept: int = 1, depth: int = 1) -> Schedule:
    """Return the explicit prefetch of ``depth`` layers."""
    return Schedule(num_offloaded=num_offloaded, num_kept=num_kept, depth=depth, num_slots=depth + 1)
