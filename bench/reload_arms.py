"""The arms of `reload.py`: one backward pass of N real blocks over a throttled copier, the host free to run ahead.

The engine's CPU link computes on the caller's thread, so its host always waits for every layer. To give lazy double
buffering its fair chance, compute is a queued lane here too, as a CUDA stream is: the host enqueues and runs ahead
unless the arm makes it wait inside each layer. Schedule, graph, memory and lanes are the engine's own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.core.model import DenseModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.micro_batch import Run
from steptune.engine.model import build_model
from steptune.engine.models.layers import rotary
from steptune.engine.offload.graph import Graph
from steptune.engine.offload.link import Lanes
from steptune.engine.offload.places import MemoryPlace, Pool, Throttled
from steptune.engine.offload.schedule import Schedule, lazy, prefetched, serial
from steptune.engine.offload.thread_lanes import ThreadLane, Work

NUM_LAYERS = 12
SPEC = DenseModel(num_layers=NUM_LAYERS, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024)
VOCAB = 64
NO_COPIES = Schedule(num_offloaded=0, num_kept=NUM_LAYERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """A schedule, and whether the host waits inside every layer."""

    schedule: Schedule
    is_host_synced: bool = False


ARMS = {
    "compute_only": Arm(schedule=NO_COPIES),
    "serial": Arm(schedule=serial(NUM_LAYERS, num_kept=0)),
    "lazy": Arm(schedule=lazy(NUM_LAYERS, num_kept=0)),
    "lazy_host_sync": Arm(schedule=lazy(NUM_LAYERS, num_kept=0), is_host_synced=True),
    "prefetched": Arm(schedule=prefetched(NUM_LAYERS, num_kept=0)),
    "prefetched_host_sync": Arm(schedule=prefetched(NUM_LAYERS, num_kept=0), is_host_synced=True),
    "prefetched_2": Arm(schedule=prefetched(NUM_LAYERS, num_kept=0, depth=2)),
}


@final
class SlowReads:
    """Host memory that is written at once and read over a slow link: only reloading is on trial."""

    def __init__(self, num_bytes: int, bytes_per_s: float) -> None:
        self._place = MemoryPlace(num_bytes)
        self._throttled = Throttled(self._place, num_bytes, bytes_per_s=bytes_per_s)

    def write(self, source: Tensor) -> None:
        """Copy in."""
        self._place.write(source)

    def read_into(self, target: Tensor) -> None:
        """Copy out, slowly."""
        self._throttled.read_into(target)


@final
class QueuedLink:
    """Compute and copies on a thread each; the caller only enqueues."""

    clock = None

    def __init__(self, bytes_per_s: float) -> None:
        self.slow = Pool(lambda num_bytes: SlowReads(num_bytes, bytes_per_s))
        self.compute, self.copier = ThreadLane("compute"), ThreadLane("copier")
        self.lanes: Lanes[Work] = Lanes(compute=self.compute, store=self.copier, load=self.copier)

    def close(self, *, is_interrupted: bool = False) -> None:
        """End both threads."""
        self.copier.close()
        self.compute.close()


@final
class Backward:
    """N blocks with fixed inputs; one call runs every layer again and differentiates it, last first."""

    def __init__(self, num_positions: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self._model = build_model(SPEC, VOCAB, seed=0)
        positions = torch.arange(num_positions)
        self._tables = rotary(positions, SPEC, torch.float32)
        self._context = Context(attend=attend_runs([Run(num_positions, 1)]))
        shape = (num_positions, SPEC.d_model)
        self.inputs = [torch.randn(shape, generator=generator) for _ in range(NUM_LAYERS)]
        self._grad = torch.randn(shape, generator=generator)
        self.checks = [0.0] * NUM_LAYERS
        self.layer_s = list[float]()

    @property
    def input_bytes(self) -> int:
        """Bytes of one layer input."""
        return self.inputs[0].nbytes

    def run_layer(self, layer: int, x: Tensor) -> None:
        """Recompute and differentiate one block; keep a number that shows which input it was given."""
        start_s, block = time.perf_counter(), self._model.blocks[layer]
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            out = block(x, *self._tables, self._context)
        grads = torch.autograd.grad(out, (x, *block.parameters()), self._grad)
        self.checks[layer] = float(grads[0].sum())
        self.layer_s.append(time.perf_counter() - start_s)

    def seconds(self, arm: Arm, bytes_per_s: float) -> float:
        """Return the wall seconds of one backward pass, forward copies done before."""
        self.layer_s.clear()
        link = QueuedLink(bytes_per_s)
        graph = Graph(arm.schedule, link)
        try:
            for layer, x in enumerate(self.inputs):
                graph.before_forward(layer, x)
                graph.after_forward(layer)
            link.compute.synchronize()
            link.copier.synchronize()
            start_s = time.perf_counter()
            for layer in reversed(range(NUM_LAYERS)):
                self._enqueue(graph, link, layer)
                if arm.is_host_synced:
                    link.compute.synchronize()
                graph.after_backward(layer)
            link.compute.synchronize()
            return time.perf_counter() - start_s
        finally:
            link.close()
            graph.give_up()

    def _enqueue(self, graph: Graph, link: QueuedLink, layer: int) -> None:
        slot = graph.before_backward(layer)
        x = self.inputs[layer] if slot is None else slot
        link.compute.submit(lambda: self.run_layer(layer, x))

    def copy_seconds(self, bytes_per_s: float) -> float:
        """Return the wall seconds of one copy when the copier does nothing else."""
        link = QueuedLink(bytes_per_s)
        places = [link.slow.take(x.nbytes) for x in self.inputs]
        target = torch.empty_like(self.inputs[0])
        try:
            for place, x in zip(places, self.inputs, strict=True):
                place.write(x)
            start_s = time.perf_counter()
            for place in places:
                link.copier.submit(_reading(place.read_into, target))
            link.copier.synchronize()
            return (time.perf_counter() - start_s) / NUM_LAYERS
        finally:
            link.close()


def _reading(read_into: Callable[[Tensor], None], target: Tensor) -> Work:
    return lambda: read_into(target)
