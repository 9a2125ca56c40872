"""How a model runs its blocks while training: keep activations, recompute them, or recompute from an offloaded input.

All three give the same gradients bit for bit. An offloaded block is one autograd node: forward without a graph, input
copied away; backward waits for the input, runs the block again with a graph and differentiates it. Its parameters are
inputs of the node, so `torch.autograd.grad` works and gradients are summed where they always are.

Two things the node must restore itself: autocast (a backward pass runs outside of it) and nothing else, since the
engine has no dropout; a block that draws random numbers would draw others when it is run again, as it would with
`recompute` here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

from steptune.engine.offload.graph import Graph

RunBlock = Callable[..., Tensor]
"""(block, x, *rest) -> the block's output: how one block of a stack is run."""


def keep_block(block: nn.Module, x: Tensor, *rest: object) -> Tensor:
    """Run a block, keeping every activation that its backward pass needs."""
    return block(x, *rest)


def recompute_block(block: nn.Module, x: Tensor, *rest: object) -> Tensor:
    """Run a block, keeping only its input."""
    return checkpoint(block, x, *rest, use_reentrant=False, preserve_rng_state=False)


def offload_blocks(graph: Graph) -> RunBlock:
    """Return how the blocks of one forward pass are run, in their order, over ``graph``."""
    num_run = 0

    def run(block: nn.Module, x: Tensor, *rest: object) -> Tensor:
        nonlocal num_run
        node = Node(graph=graph, layer=num_run, run=lambda x: block(x, *rest), autocast=Autocast.current(x.device.type))
        num_run += 1
        parameters = [parameter for parameter in block.parameters() if parameter.requires_grad]
        out: Tensor = OffloadedBlock.apply(x, node, *parameters)  # pyright: ignore[reportAssignmentType]
        return out

    return run


@dataclass(frozen=True, kw_only=True, slots=True)
class Autocast:
    """A forward pass's autocast: ``Autocast(device_type="cpu", dtype=torch.bfloat16, is_on=True, is_cached=True)``."""

    device_type: str
    dtype: torch.dtype
    is_on: bool
    is_cached: bool

    @classmethod
    def current(cls, device_type: str) -> "Autocast":
        """Return what is in force now."""
        return cls(
            device_type=device_type,
            dtype=torch.get_autocast_dtype(device_type),
            is_on=torch.is_autocast_enabled(device_type),
            is_cached=torch.is_autocast_cache_enabled(),
        )

    def again(self, *, is_cached: bool) -> torch.autocast:
        """Return it as a context."""
        return torch.autocast(self.device_type, dtype=self.dtype, enabled=self.is_on, cache_enabled=is_cached)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What a block's backward pass must know besides tensors."""

    graph: Graph
    layer: int
    run: Callable[[Tensor], Tensor]
    autocast: Autocast


class OffloadedBlock(torch.autograd.Function):
    """One block whose input waits elsewhere for its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, node: Node, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        """Run the block without a graph; keep the input only if it is not offloaded."""
        graph, layer = node.graph, node.layer
        ctx.node = node
        ctx.save_for_backward(*(() if layer < graph.schedule.num_offloaded else (x,)), *parameters)
        graph.before_forward(layer, x)
        # a weight cast without a graph must not be found in the cache by code that needs its gradient (torch 2.13 sees
        # to that itself; this holds for the torch a user brings)
        with node.autocast.again(is_cached=False):
            out = node.run(x)
        graph.after_forward(layer)
        return out

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,  # noqa: ANN401
        *grad_outputs: Any,  # noqa: ANN401
    ) -> tuple[Tensor | None, ...]:
        """Run the block again from its input, and differentiate it."""
        node: Node = ctx.node
        reloaded = node.graph.before_backward(node.layer)
        x, *parameters = ctx.saved_tensors if reloaded is None else (reloaded, *ctx.saved_tensors)
        x = x.detach().requires_grad_()
        with torch.enable_grad(), node.autocast.again(is_cached=node.autocast.is_cached):
            end = get_gradient_edge(node.run(x))  # the output itself is not needed, and is as large as the input
        grad_x, *grads = torch.autograd.grad(end, (x, *parameters), grad_outputs, allow_unused=True)
        node.graph.after_backward(node.layer)
        return (grad_x, None, *grads)
