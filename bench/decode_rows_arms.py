"""Who forecasts the rows of `decode_rows`: a group of rows as this project's shape, device and layouts, and the arms.

Every arm but the raw one sees the same three points. An arm gives None for a row it refuses.
"""

from collections.abc import Callable, Sequence
from functools import cache

from decode_rows_data import Config, Group, Measured
from steptune.core.errors import StepTuneError
from steptune.footprint.layout import RolloutLayout
from steptune.footprint.roofline import decode
from steptune.forecast.decode.forecast import DecodeForecaster, DecodePoint, decode_forecaster
from steptune.forecast.decode.terms import Workload
from steptune.hardware.devices import Device, named_device
from steptune.shapes.registry import named_shape
from steptune.shapes.shape import Experts, ModelShape

Arm = Callable[[Group, Sequence[Measured], Config], float | None]
"""Seconds of a configuration, given the group's three points."""

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625, "int4": 0.5625}
"""4 bits and a scale byte for 16 weights."""

SHARE = 0.9
"""Share of the memory an engine takes: vLLM's default, and the sample states none."""


@cache
def job(group: Group) -> tuple[ModelShape, Device]:
    """Return shape and device of a group."""
    return named_shape(group.model), named_device(group.device.upper())


def layout_of(group: Group, config: Config) -> RolloutLayout:
    """Return the layout with the bytes of the group's precision.

    Rows do not state their cache: fp8 is taken where the weights are narrower than bf16, since bf16 scored worse on the
    half that the priors are fitted on.
    """
    shape, device = job(group)
    stored = WEIGHT_BYTES[group.precision]
    is_sparse = any(isinstance(layers.feed_forward, Experts) for layers in shape.layers)
    is_narrow_experts = is_sparse and stored < 1
    has_bf16_products = group.precision in ("bf16", "int4") or (group.precision == "fp4" and device.family == "hopper")
    return RolloutLayout(
        tensor=config.layout.tensor,
        data=config.layout.data,
        expert=config.layout.expert,
        weight_bytes=2.0 if is_narrow_experts else stored,
        expert_bytes=stored if is_narrow_experts else None,
        products="bf16" if has_bf16_products else "fp8",
        kv_bytes=2.0 if group.precision == "bf16" else 1.0,
        share=SHARE,
        longest=config.prompt + config.answer,
    )


def work_of(config: Config) -> Workload:
    """Return the traffic of a configuration."""
    return Workload(rows=config.rows, prompt=config.prompt, answer=config.answer)


def mechanism(group: Group, points: Sequence[Measured], config: Config) -> float | None:
    """Return this project's forecast."""
    found = with_interval(group, points, config)
    return found[0] if found else None


def with_interval(group: Group, points: Sequence[Measured], config: Config) -> tuple[float, float, float] | None:
    """Return this project's forecast and its 80 % interval; None where it refuses."""
    try:
        made = _forecaster(group, tuple(points))
        found = made.step(layout_of(group, config), work_of(config))
    except StepTuneError:
        return None
    assert found.low is not None
    assert found.high is not None
    return found.value, found.low, found.high


@cache
def _forecaster(group: Group, points: tuple[Measured, ...]) -> DecodeForecaster:
    shape, device = job(group)
    measured = [
        DecodePoint(layout=layout_of(group, p.config), work=work_of(p.config), seconds=p.seconds) for p in points
    ]
    return decode_forecaster(shape, device, measured)


def line(group: Group, points: Sequence[Measured], config: Config) -> float | None:
    """Return a + b x sequences, least squares of the three points, for every layout and length alike."""
    rows = [float(p.config.rows) for p in points]
    mean_x, mean_y = sum(rows) / len(rows), sum(p.seconds for p in points) / len(points)
    slope = sum((x - mean_x) * (p.seconds - mean_y) for x, p in zip(rows, points, strict=True))
    slope /= sum((x - mean_x) ** 2 for x in rows)
    return max(min(p.seconds for p in points) / 2, mean_y + slope * (config.rows - mean_x))


def roofline(group: Group, points: Sequence[Measured], config: Config) -> float | None:
    """Return a + b x the roofline's seconds of a decode step, least squares of the three points, neither below 0."""
    ideal = [_ideal_s(group, p.config) for p in points]
    mean_x, mean_y = sum(ideal) / len(ideal), sum(p.seconds for p in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x in ideal)
    slope = sum((x - mean_x) * (p.seconds - mean_y) for x, p in zip(ideal, points, strict=True)) / spread
    slope = min(max(slope, 0.0), mean_y / mean_x)
    return mean_y + slope * (_ideal_s(group, config) - mean_x)


def _ideal_s(group: Group, config: Config) -> float:
    shape, device = job(group)
    return decode(shape, layout_of(group, config), device, rows=config.rows, context=config.context).seconds
