"""Offloading as the trainer sees it: one object a trainer, one context a step, one way to run blocks a forward.

::

    offload = Offload(make_link, is_unified=...)    # see `devices.py` for the two there are
    with offload.step() as step:             # starts no thread yet
        hidden = model.hidden(..., recompute=step)   # decides, copies inputs away while the layers run
        loss(hidden).backward()              # copies them back ahead of their use
                                             # the step's end ends its thread and gives every place back, error or not

The decision is made anew for every forward from what is known: sizes at once, copy and layer times after the first
forward that was offloaded (copy and layer grow alike with the micro-batch, so the ratio holds for all). Each thing it
decides is logged once.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median
from typing import Final, final

import torch
from torch import Tensor

from steptune.engine.offload.blocks import RunBlock, keep_block, offload_blocks, recompute_block
from steptune.engine.offload.decide import MIN_BYTES, Decision, Situation, decide
from steptune.engine.offload.graph import Graph, Link
from steptune.engine.offload.schedule import Schedule

log = logging.getLogger(__name__)


@final
class Offload:
    """Keeps the settings and what was measured; makes a link for each step that needs one."""

    def __init__(
        self,
        make_link: Callable[[], Link],
        *,
        is_unified: bool,
        depth: int = 1,
        stores_in_flight: int = 1,
        min_bytes: int = MIN_BYTES,
    ) -> None:
        """Offload with at most ``depth`` layers of prefetch.

        ``is_unified``: the places that the link makes lie in the memory that the layers compute in.
        """
        self.make_link: Final = make_link
        self.is_unified, self.depth = is_unified, depth
        self.stores_in_flight, self.min_bytes = stores_in_flight, min_bytes
        self.layer_s: float | None = None
        self.copy_s: float | None = None
        self.decision: Decision | None = None
        self._said = set[int | None]()

    @contextmanager
    def step(self) -> "Generator[OffloadStep]":
        """Offload what is run inside; at the end no thread, slot or place is held."""
        step = OffloadStep(self)
        try:
            yield step
        finally:
            step.close()

    def decide(self, num_layers: int, x: Tensor) -> Decision:
        """Decide for a forward of ``num_layers`` blocks that begins with ``x``."""
        situation = Situation(
            is_unified=self.is_unified,
            num_layers=num_layers,
            input_bytes=x.nbytes,
            layer_s=self.layer_s,
            copy_s=self.copy_s,
        )
        decision = decide(situation, depth=self.depth, min_bytes=self.min_bytes)
        if decision.depth not in self._said:
            self._said.add(decision.depth)
            if decision.is_on:
                log.info("layer inputs are offloaded: %s", decision.because)
            else:
                log.warning("`offload` was asked for and is off, layers are recomputed: %s", decision.because)
        self.decision = decision
        return decision

    def learn(self, graph: Graph) -> None:
        """Take the times of a finished graph (copies and layers of one graph are of one size)."""
        if graph.layer_s and graph.memory.load_s:
            self.layer_s, self.copy_s = median(graph.layer_s), median(graph.memory.load_s)


@final
class OffloadStep:
    """The graphs of one step and the link they share."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._link: Link | None = None
        self._graphs = list[Graph]()

    def run_blocks(self, num_layers: int, x: Tensor) -> RunBlock:
        """Return how to run the ``num_layers`` blocks of one forward pass that begins with ``x``.

        Plain recompute where offloading cannot help, and nothing at all where no gradient is asked for.
        """
        if not torch.is_grad_enabled():
            return keep_block
        decision = self._offload.decide(num_layers, x)
        if decision.depth is None or not x.is_contiguous():
            return recompute_block
        if self._link is None:
            self._link = self._offload.make_link()
        schedule = Schedule(
            num_offloaded=num_layers - 1,
            depth=decision.depth,
            num_slots=decision.depth + 1,
            stores_in_flight=self._offload.stores_in_flight,
        )
        graph = Graph(schedule, self._link)
        self._graphs.append(graph)
        return offload_blocks(graph)

    def close(self) -> None:
        """End the link, then give back what graphs still hold (a backward that failed or never came)."""
        if self._link is not None:
            self._link.close(is_interrupted=not all(graph.is_over for graph in self._graphs))
        for graph in self._graphs:
            if graph.is_over:
                self._offload.learn(graph)
            graph.give_up()
        self._link, self._graphs = None, []


@contextmanager
def activations(recompute: bool, offload: Offload | None) -> "Generator[bool | OffloadStep]":
    """Yield what `Transformer.hidden` is given as ``recompute`` in one micro-batch: forward and backward run inside."""
    if offload is None:
        yield recompute
    else:
        with offload.step() as step:
            yield step


def block_runner(recompute: "bool | OffloadStep", num_layers: int, x: Tensor) -> RunBlock:
    """Return how to run a model's blocks: kept, recomputed, or (given a step) recomputed from offloaded inputs."""
    if isinstance(recompute, OffloadStep):
        return recompute.run_blocks(num_layers, x)
    return recompute_block if recompute else keep_block
