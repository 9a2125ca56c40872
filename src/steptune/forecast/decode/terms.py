"""What one decode step of an engine has to do, in seconds at the vendor's peaks and in counts.

The surprise: with continuous batching a step is not decode alone. While one sequence makes its ``answer`` tokens,
every other one of the ``rows`` is replaced once, so between two tokens lie on average (rows - 1) / answer prompts of
other sequences. At 8,192 prompt tokens for 1,024 answer tokens that is eight prompt tokens a row, and most of the time.
"""

import math
from dataclasses import dataclass
from typing import final

from steptune.core.errors import explain
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.engine import pool, share_bytes
from steptune.footprint.layout import RolloutLayout
from steptune.footprint.roofline import REDUCES_PER_LAYER, decode, prefill
from steptune.forecast.curve import ForecastError
from steptune.hardware.devices import Device
from steptune.shapes.shape import ModelShape


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Steady traffic on one engine: ``Workload(rows=64, prompt=1024, answer=1024)``."""

    rows: int
    """Sequences at once; when one ends another starts."""
    prompt: float
    """Mean prompt tokens."""
    answer: float
    """Mean generated tokens."""

    def __post_init__(self) -> None:
        if not (self.rows >= 1 and self.answer >= 1 and 0 <= self.prompt < math.inf and self.answer < math.inf):
            raise ForecastError(
                explain(
                    "this is no decode workload",
                    got=f"rows {self.rows}, prompt {self.prompt}, answer {self.answer}",
                    allowed="one sequence or more, one generated token or more, prompts of zero tokens or more",
                    hint="give sequences at once in one engine and mean lengths in tokens",
                )
            )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """The work between two tokens of one sequence."""

    layers: float
    """Layers whose kernels are launched."""
    exchanges: float
    """Exchanges between devices, each counted log2(devices) times; 0 on one device."""
    weights_s: float
    cache_s: float
    compute_s: float
    prefill_s: float
    """Arithmetic of the prompts between two tokens."""
    started_s: float
    """Weights read again by those prompts' own steps; attention ranks of their own start theirs side by side."""
    link_s: float
    rows: float
    """Sequences of one attention rank: each is sampled and scheduled."""


def terms(shape: ModelShape, layout: RolloutLayout, device: Device, work: Workload) -> Terms:
    """Return the terms of one step; sequences that the cache cannot hold wait and are not part of it.

    Raises:
        DeviceError: a figure of the device is not known.
    """
    rows = running_rows(shape, layout, device, work)
    step = decode(shape, layout, device, rows=rows, context=work.prompt + work.answer / 2)
    started = (rows - 1) / work.answer
    prompts = prefill(shape, layout, device, tokens=max(1, round(work.prompt)), length=max(1, round(work.prompt)))
    devices = layout.tensor * layout.data
    return Terms(
        layers=shape.num_layers,
        exchanges=shape.num_layers * REDUCES_PER_LAYER * math.log2(devices) if devices > 1 else 0.0,
        weights_s=step.weights_s,
        cache_s=step.cache_s,
        compute_s=step.compute_s,
        prefill_s=started * prompts.compute_s,
        started_s=max(0.0, rows / layout.data - 1) / work.answer * prompts.weights_s,
        link_s=step.link_s + started * prompts.link_s,
        rows=rows / layout.data,
    )


def running_rows(shape: ModelShape, layout: RolloutLayout, device: Device, work: Workload) -> int:
    """Return the sequences that run at once: those asked for, or those that the cache holds at their mean length."""
    held = layout.model_copy(update={"longest": max(1, round(work.prompt + work.answer / 2))})
    free = pool(shape, held, share_bytes(held, device.memory_gib * BYTES_PER_GIB, 0.0))
    return max(1, min(work.rows, int(free.sequences * layout.data)))
