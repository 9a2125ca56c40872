"""Whether offloading can help, decided before anything is copied, and said in one sentence.

Offloading never makes a step faster than plain recompute; what it buys is memory, for what the exposed copies cost.
So it is off where it frees nothing (the device's memory *is* the host's), where there is next to nothing to free, and
where copies take so much longer than layers that the price is out of proportion.
"""

import math
from dataclasses import dataclass

from steptune.engine.offload.closed_form import overlapped_s

MIN_LAYERS = 3
"""The last input stays, and one slot comes back: below three layers nothing is freed at any moment."""

MIN_BYTES = 2 * 2**20
"""Bytes of a layer input below which a copy costs more than it frees: Unsloth's threshold (unsloth-zoo#534); plain
checkpointing won below 384 to 512 tokens on a B200 (unsloth#3867)."""

MIN_COPY_RATIO = 0.03
"""Copy over layer time below which a prefetch could hide at most 3 % of the backward pass: one slot will do."""

MAX_SLOWDOWN = 1.5
"""Predicted backward time over plain recompute's above which memory is not worth it (our choice). Unified-memory
machines that ran anyway took 2.15 times as long (unsloth-zoo#928)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What is known before a step: ``Situation(is_unified=False, num_layers=36, input_bytes=2**28)``."""

    is_unified: bool
    """The slow side is the very memory that the layers compute in (a CPU without a file, an integrated GPU)."""
    num_layers: int
    input_bytes: int
    """Of one layer."""
    layer_s: float | None = None
    """Seconds of one layer's recompute and backward; None where not measured."""
    copy_s: float | None = None
    """Seconds of copying one input back; None where not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """``Decision(depth=1, because="11 of 12 layer inputs, 8.4 MB each")``."""

    depth: int | None
    """Layers to prefetch; None: do not offload."""
    because: str

    @property
    def is_on(self) -> bool:
        """Whether inputs are to be offloaded."""
        return self.depth is not None


def decide(situation: Situation, *, depth: int = 1, min_bytes: int = MIN_BYTES) -> Decision:
    """Return whether to offload and how many layers to prefetch (``depth`` at most). NaN times never switch it on."""
    num_copies, size = situation.num_layers - 1, f"{situation.input_bytes / 1e6:.3g} MB"
    if situation.is_unified:
        return Decision(depth=None, because="the device's memory is the host's: a copy there frees nothing")
    if situation.num_layers < MIN_LAYERS:
        return Decision(depth=None, because=f"{situation.num_layers} layers: below {MIN_LAYERS} nothing is freed")
    if situation.input_bytes < min_bytes:
        return Decision(depth=None, because=f"a layer input of {size} is below {min_bytes / 1e6:.3g} MB")
    layer_s, copy_s = situation.layer_s, situation.copy_s
    if layer_s is None or copy_s is None:
        return Decision(depth=depth, because=f"{num_copies} layer inputs of {size}, copy time not measured")
    plain_s = situation.num_layers * layer_s
    predicted_s = overlapped_s(num_copies, compute_s=layer_s, copy_s=copy_s, num_kept=1)
    times = f"a copy takes {1e3 * copy_s:.3g} ms, a layer {1e3 * layer_s:.3g} ms"
    if not (math.isfinite(layer_s) and math.isfinite(copy_s)):
        return Decision(depth=None, because=f"{times}: not a measurement")
    if predicted_s > MAX_SLOWDOWN * plain_s:
        slower = f"the backward pass would take {predicted_s / plain_s:.3g} times as long"
        return Decision(depth=None, because=f"{times}: {slower}, more than {MAX_SLOWDOWN}")
    if copy_s < MIN_COPY_RATIO * layer_s:
        return Decision(depth=0, because=f"{times}: too short to be worth a prefetch")
    return Decision(depth=depth, because=times)
