"""The least time of one decode step and of one prefill on a device: bytes over bandwidth, FLOPs over the peak.

These are seconds at the vendor's peaks, which nothing reaches: use the *ratio* of two of them, and scale it by what was
measured at one. How much of the peak a kernel reaches is the caller's.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.errors import DeviceError, explain
from steptune.footprint.engine import engine_weights, expert_bytes, expert_ways
from steptune.footprint.layout import RolloutLayout
from steptune.hardware.devices import GIGA, TERA, Device
from steptune.shapes.cost import forward_flop_per_token, kv_bytes, state_bytes_per_sequence
from steptune.shapes.count import parameters
from steptune.shapes.shape import Experts, GroupedAttention, ModelShape

REDUCES_PER_LAYER = 2
"""All-reduces of tensor parallelism in a layer's forward pass (arXiv 1909.08053): behind attention and feed-forward."""

BF16 = 2


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Roofline:
    """Seconds at the peaks, by what takes them.

    Example: decode of Qwen3-8B for 64 rows of 2,000 tokens on one H100: 4.5 ms of weights, 5.6 ms of cache, 1.0 ms of
    arithmetic: bound by bandwidth, 10.1 ms.
    """

    weights_s: float
    cache_s: float
    compute_s: float
    link_s: float

    @property
    def seconds(self) -> float:
        """The larger of traffic and arithmetic, then the exchange that neither hides."""
        return max(self.weights_s + self.cache_s, self.compute_s) + self.link_s

    @property
    def bound(self) -> Literal["bandwidth", "compute", "link"]:
        """What takes the most."""
        traffic = self.weights_s + self.cache_s
        if self.link_s > max(traffic, self.compute_s):
            return "link"
        return "bandwidth" if traffic >= self.compute_s else "compute"


def decode(shape: ModelShape, layout: RolloutLayout, device: Device, *, rows: int, context: float) -> Roofline:
    """Return one decode step of ``rows`` sequences of one engine that each attend to ``context`` tokens.

    Weights: all of the backbone, and of the experts those that at least one row chose, E * (1 - (1 - k / E) ^ rows)
    with even routing. Cache and states of every row are read once, states written too.

    Raises:
        DeviceError: a figure of the device is not known.
    """
    peak, bandwidth = _peak(device, layout), _bandwidth(device)
    ways = layout.tensor * layout.pipeline
    own = rows / layout.data
    length = int(context)
    cached = sum(_cache(shape, index, layout, length) for index in range(len(shape.layers))) / layout.pipeline
    states = 2.0 * state_bytes_per_sequence(shape) / ways
    return Roofline(
        weights_s=_weights_read(shape, layout, rows) / bandwidth,
        cache_s=own * (cached + states) / bandwidth,
        compute_s=own * forward_flop_per_token(shape, context) / ways / peak,
        link_s=_exchange_s(shape, layout, device, rows),
    )


def prefill(shape: ModelShape, layout: RolloutLayout, device: Device, *, tokens: int, length: int) -> Roofline:
    """Return the prefill of ``tokens`` in prompts of ``length``, the head for the last position of each alone.

    Raises:
        DeviceError: a figure of the device is not known.
    """
    peak, bandwidth = _peak(device, layout), _bandwidth(device)
    ways = layout.tensor * layout.pipeline * layout.data
    per_token = forward_flop_per_token(shape, (length + 1) / 2, with_head=False)
    written = tokens / max(1, length) * kv_bytes(shape, length, 1) * layout.kv_bytes / ways
    return Roofline(
        weights_s=_weights_read(shape, layout, tokens) / bandwidth,
        cache_s=written / bandwidth,
        compute_s=tokens * per_token / ways / peak,
        link_s=_exchange_s(shape, layout, device, tokens),
    )


def _weights_read(shape: ModelShape, layout: RolloutLayout, rows: int) -> float:
    count = parameters(shape)
    if rows < 1:
        return 0.0
    whole = engine_weights(shape, layout).mid
    table = layout.weight_bytes * count.embedding / layout.tensor if count.head else 0.0  # looked up, not read
    unread = expert_bytes(layout) * count.experts / expert_ways(layout) * (1 - _touched(shape, layout, rows))
    return whole - table - unread


def _touched(shape: ModelShape, layout: RolloutLayout, rows: int) -> float:
    """Return the part of a device's routed experts that at least one of ``rows`` chose, on the busiest device.

    With experts whole on their devices (expert parallelism) the others wait for the one with most chosen experts:
    mean and sqrt(2 ln(devices)) deviations of a binomial, the first order of the largest of so many.
    """
    experts = _experts(shape)
    if experts is None:
        return 1.0
    mean = 1 - (1 - experts.top_k / experts.num_experts) ** rows
    own = experts.num_experts / layout.expert
    return min(1.0, mean + math.sqrt(2 * mean * (1 - mean) * math.log(layout.expert) / own))


def _experts(shape: ModelShape) -> Experts | None:
    return next((g.feed_forward for g in shape.layers if isinstance(g.feed_forward, Experts)), None)


def _cache(shape: ModelShape, index: int, layout: RolloutLayout, length: int) -> float:
    group = shape.layers[index]
    heads = group.mixer.num_kv_heads if isinstance(group.mixer, GroupedAttention) else 1
    alone = shape.model_copy(update={"layers": (group,)})
    return kv_bytes(alone, length, 1) * layout.kv_bytes / min(layout.tensor, heads)


def _exchange_s(shape: ModelShape, layout: RolloutLayout, device: Device, rows: int) -> float:
    devices = layout.tensor * layout.data
    if devices == 1 or rows < 1:
        return 0.0
    if device.link_gbyte_per_s is None:
        raise _unknown(device, "link_gbyte_per_s", "bandwidth between devices")
    one_way = device.link_gbyte_per_s * GIGA / 2
    if layout.data > 1:  # every row goes to the devices of its experts and comes back
        experts = _experts(shape)
        copies = min(experts.top_k, devices - 1) if experts else 0
        moved = rows / layout.data * copies * shape.d_model * BF16
    else:
        moved = 2.0 * (layout.tensor - 1) / layout.tensor * rows * shape.d_model * BF16
    return shape.num_layers * REDUCES_PER_LAYER * moved / one_way


def _peak(device: Device, layout: RolloutLayout) -> float:
    """Return the peak of the products' precision in FLOP/s."""
    if layout.products == "fp8" or (layout.products is None and layout.weight_bytes == 1):
        if device.fp8_peak_tflops is None:
            raise _unknown(device, "fp8_peak_tflops", "dense fp8 peak")
        return device.fp8_peak_tflops * TERA
    if device.bf16_peak_tflops is None:
        raise _unknown(device, "bf16_peak_tflops", "dense bf16 peak")
    return device.bf16_peak_tflops * TERA


def _bandwidth(device: Device) -> float:
    if device.hbm_gbyte_per_s is None:
        raise _unknown(device, "hbm_gbyte_per_s", "memory bandwidth")
    return device.hbm_gbyte_per_s * GIGA


def _unknown(device: Device, field: str, what: str) -> DeviceError:
    return DeviceError(
        explain(
            f"the {what} of {device.name} is not known",
            got=f"no `{field}` in the table of devices",
            allowed="a device with that figure",
            hint="measure one decode step at two numbers of running sequences on it and forecast from these",
        )
    )
