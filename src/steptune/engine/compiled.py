"""Layers compiled by torch's inductor, region by region: `Context.run` of a trainer with `compile`.

::

    norm, projections, rotation -> [ attention ] -> projection, norm, feed-forward -> next layer ... -> head, log-probs
          compiled                  as it stands              compiled                                     compiled

What looks back (attention, convolution, delta rule) and what sorts tokens to experts depends on the batch's lengths in
ways that a graph would be made anew for; it stands between the regions, uncompiled. A region sees single positions, so
their number is the only size that changes, and it is a symbol in the graph: later lengths compile nothing. The surprise
is what does compile again: other threads (inductor writes their number into its loops), another number format, a pass
without gradients (those are not compiled at all). `Gradients.warm_up` makes all that a run needs before its first step.

A break in a graph is an error (`fullgraph`), so none is counted. Written for the CPU; not run on CUDA.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, ParamSpec, TypeVar, final

import torch
from torch import Tensor, nn

from steptune.core.errors import JobError, explain

P = ParamSpec("P")
R = TypeVar("R")

MAX_GRAPHS = 64
"""Variants of one region: a probe meets threads x formats x kinds of layers, which are 8 on two cores."""

INLINE = {"compile_threads": 1}
"""Settings of inductor: it compiles in this process. By default it keeps a pool of processes as wide as the machine."""


@final
class Compiled:
    """Runs regions compiled; implements `context.RunRegion`."""

    def __init__(self) -> None:
        self.num_graphs = 0
        """Graphs compiled so far, forward and backward of one region counted once."""
        self._num_taken = 0
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __call__(self, region: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a region; a single position is run as it stands, because a size of 1 is a constant to the compiler."""
        if any(isinstance(x, Tensor) and not isinstance(x, nn.Parameter) and len(x) < 2 for x in args):
            return region(*args, **kwargs)
        compiled = self._compiled.get(region)
        if compiled is None:
            make: Any = torch.compile  # the overloads that torch states lack the last two arguments
            compiled = self._compiled[region] = make(
                region,
                fullgraph=True,
                dynamic=True,
                backend=self._compile,
                recompile_limit=MAX_GRAPHS,
                isolate_recompiles=True,
            )
        return compiled(*args, **kwargs)

    def take(self) -> int:
        """Return how many graphs were compiled since the last call."""
        num_new, self._num_taken = self.num_graphs - self._num_taken, self.num_graphs
        return num_new

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        made = inductor(graph, inputs)  # may ask torch to begin again, which is no second graph
        self.num_graphs += 1
        return made


def inductor(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """Return what inductor makes of a graph: C++ for the CPU."""
    from torch._inductor.compile_fx import compile_fx  # loads the compiler: seconds that nobody else should pay

    made: Any = compile_fx(graph, inputs, config_patches=INLINE)
    return made


def check_torch() -> None:
    """Refuse a torch that cannot keep two settings of one region apart.

    Raises:
        JobError: its `compile` lacks what is needed here.
    """
    if not {"recompile_limit", "isolate_recompiles"} <= signature(torch.compile).parameters.keys():
        raise JobError(
            explain(
                "`compile` needs a newer torch",
                got=torch.__version__,
                allowed="torch 2.13",
                hint="update torch, or leave `compile` out",
            )
        )
