"""What differs between prefill, decode, padded and packed: built once per forward, handed to every layer.

The model knows nothing of masks, caches or layouts. Everything a layer needs besides its own input stands here,
so a layer never derives it again; that is the whole of the metadata optimisation.

Shape letters: N positions (any leading shape), H query head, K key/value head, E head dim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from torch import Tensor

from steptune.engine.knobs import Dispatch
from steptune.engine.routes import RouteTape

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [..., H, E], k [..., K, E], v [..., K, E]) -> attention output [..., H, E], rotary already applied."""


P = ParamSpec("P")
R = TypeVar("R")


class RunRegion(Protocol):
    """How a layer's regions are run: the parts between two look-backs, which see single positions only."""

    def __call__(self, region: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``region(*args, **kwargs)``, computed as it stands or compiled (`compiled`)."""
        ...


def run_as_is(region: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a region operator by operator."""
    return region(*args, **kwargs)


class Recur(Protocol):
    """The two operators of a gated delta-rule layer that look back: each over a document's own history only."""

    def conv(self, layer: int, x_NC: Tensor, weight_CK: Tensor, /) -> Tensor:
        """Return the causal depthwise convolution [..., C] of channels C over the last K positions."""
        ...

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, /) -> Tensor:
        """Return the gated delta rule's output [..., heads, value dim]; see `models.delta_rule` for the shapes."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """One forward's surroundings: ``Context(attend=attend_runs(runs))`` for a packed micro-batch."""

    attend: Attend
    """Attention over the positions this one may see."""
    recur: Recur | None = None
    """Recurrent layers' history; None where the model has no such layer."""
    moe_dispatch: Dispatch = "grouped"
    """How tokens reach their experts; only a mixture-of-experts layer reads it."""
    routes: RouteTape | None = None
    """Records or replays expert choices (router replay); None does neither."""
    run: RunRegion = run_as_is
    """How regions are run; only a trainer with `compile` brings another way."""
