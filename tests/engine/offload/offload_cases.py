"""A small stack of blocks, links and places, shared by the tests of offloading."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptune.engine.offload.host_link import COPIER, HostLink
from steptune.engine.offload.places import MemoryPlace, Place, Pool
from steptune.engine.offload.step import Offload, OffloadStep, block_runner

torch.set_num_threads(1)

NUM_LAYERS, WIDTH, ROWS = 5, 8, 6


class TinyBlock(nn.Module):
    """A residual block; `fail` makes it raise, in the forward pass or when it is run again."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(layer)
        self.up = nn.Parameter(torch.randn(WIDTH, 2 * WIDTH, generator=g) / 3)
        self.down = nn.Parameter(torch.randn(2 * WIDTH, WIDTH, generator=g) / 3)
        self.unused = nn.Parameter(torch.zeros(1))
        self.fail: Callable[[], bool] = lambda: False

    def forward(self, x: Tensor, scale: float) -> Tensor:
        """Return the block's output."""
        if self.fail():
            raise ArithmeticError("a layer failed")
        return x + scale * F.silu(F.rms_norm(x, (WIDTH,)) @ self.up) @ self.down


class Stack(nn.Module):
    """An embedding, blocks that are run by a policy, and a loss."""

    def __init__(self, num_layers: int = NUM_LAYERS) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(99)
        self.embed = nn.Parameter(torch.randn(ROWS, WIDTH, generator=g))
        self.blocks = nn.ModuleList([TinyBlock(i) for i in range(num_layers)])

    def loss(
        self, recompute: bool | OffloadStep, seed: int = 0, autocast: AbstractContextManager[object] | None = None
    ) -> Tensor:
        """Return the loss of one batch of numbers."""
        x = self.embed * torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))
        run = block_runner(recompute, len(self.blocks), x)
        with autocast or nullcontext():
            for block in self.blocks:
                x = run(block, x, 0.5)
        return x.square().mean()

    def take_gradients(self) -> list[Tensor | None]:
        """Return the gradients and forget them."""
        gradients = [p.grad for p in self.parameters()]
        self.zero_grad(set_to_none=True)
        return gradients


class CountedPool:
    """Places in memory, and a look at how many are taken."""

    def __init__(self, make: Callable[[int], Place] = MemoryPlace) -> None:
        self.pool = Pool(make)

    def offload(self, *, depth: int = 1, stores_in_flight: int = 1, is_unified: bool = False) -> Offload:
        """Return an offload that takes tensors of any size."""
        return Offload(
            lambda: HostLink(self.pool),
            is_unified=is_unified,
            depth=depth,
            stores_in_flight=stores_in_flight,
            min_bytes=1,
        )


def equal(left: list[Tensor | None], right: list[Tensor | None]) -> bool:
    """Return whether gradients agree bit for bit."""
    pairs = list(zip(left, right, strict=True))
    return all((a is None) == (b is None) and (a is None or b is None or torch.equal(a, b)) for a, b in pairs)


def copier_threads() -> int:
    """Return how many copiers are running in this process."""
    return sum(thread.name == COPIER for thread in threading.enumerate())
