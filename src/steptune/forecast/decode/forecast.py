"""Seconds between two tokens of a job's engine under another layout, number of sequences or length.

    measured points --fit--> factors --terms of the new configuration--> seconds, interval

The surprise: the points should lie far apart in sequences at once, not in layout. Each device, model, engine and
precision has its own factors, and a forecast is only of the engine that was measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.errors import explain
from steptune.core.estimate import Estimate, Source
from steptune.footprint.layout import RolloutLayout
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.fit import Efficiency, fit
from steptune.forecast.decode.terms import Workload, terms
from steptune.hardware.devices import Device
from steptune.shapes.shape import ModelShape

Z_80 = 1.2816
"""Standard deviations to either side that hold 80 % of a normal distribution."""

SAME_LAYOUT_LOG_SD = 0.085
"""Beside the factors' own uncertainty, in a layout that was measured: with it four in five rows of a group left
out are inside (`bench/decode_rows_fit.py`, its half of the groups)."""

OTHER_LAYOUT_LOG_SD = 0.13
"""The same in a layout that was not."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DecodePoint:
    """One measurement: ``DecodePoint(layout=..., work=Workload(rows=64, prompt=1024, answer=1024), seconds=0.014)``."""

    layout: RolloutLayout
    work: Workload
    seconds: float
    """Mean time between two tokens of a sequence, pauses for prompts of others included."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeForecaster:
    """An engine with its measured points: make it with `decode_forecaster`."""

    shape: ModelShape
    device: Device
    points: tuple[DecodePoint, ...]
    efficiency: Efficiency

    def step(self, layout: RolloutLayout, work: Workload) -> Estimate:
        """Return the seconds between two tokens of a sequence, with an 80 % interval.

        Raises:
            ForecastError: tensor parallelism does not divide the heads, so the layout cannot be.
        """
        check_layout(self.shape, layout)
        task = terms(self.shape, layout, self.device, work)
        is_known = any(_ways(point.layout) == _ways(layout) for point in self.points)
        own = SAME_LAYOUT_LOG_SD if is_known else OTHER_LAYOUT_LOG_SD
        half = Z_80 * math.hypot(own, self.efficiency.log_sd(task))
        seconds = self.efficiency.seconds(task)
        return Estimate(
            value=seconds,
            low=seconds * math.exp(-half),
            high=seconds * math.exp(half),
            unit="s",
            source=Source.FORECAST,
            note=f"80 %, from {len(self.points)} measured points" + ("" if is_known else "; another layout"),
        )


def decode_forecaster(shape: ModelShape, device: Device, points: Sequence[DecodePoint]) -> DecodeForecaster:
    """Return a forecaster for the engine that was measured.

    Raises:
        ForecastError: fewer than two numbers of sequences were measured, or seconds are not positive.
        DeviceError: a figure of the device is not known.
    """
    rows = sorted({point.work.rows for point in points})
    if len(rows) < 2:
        raise ForecastError(
            explain(
                "one number of sequences cannot tell a step's fixed part from what grows",
                got=f"points at {rows} sequences",
                allowed="points at two numbers of sequences or more, best three",
                hint="measure the time between tokens at the lowest, a middle and the highest number of sequences",
            )
        )
    for point in points:
        check_layout(shape, point.layout)
    measured = [(terms(shape, point.layout, device, point.work), point.seconds) for point in points]
    return DecodeForecaster(shape=shape, device=device, points=tuple(points), efficiency=fit(measured))


def check_layout(shape: ModelShape, layout: RolloutLayout) -> None:
    """Refuse a degree of tensor parallelism that divides no layer's heads evenly.

    Raises:
        ForecastError: with the head counts.
    """
    for group in shape.layers:
        heads = getattr(group.mixer, "num_heads", None)
        if isinstance(heads, int) and heads % layout.tensor:
            raise ForecastError(
                explain(
                    f"`{shape.name}` cannot be divided so",
                    got=f"tensor parallelism {layout.tensor}",
                    allowed=f"a divisor of its {heads} attention heads",
                    hint="a number of devices that prefill and decode share between engines is no tensor parallelism",
                )
            )


def _ways(layout: RolloutLayout) -> tuple[int, int, int, int]:
    return (layout.tensor, layout.pipeline, layout.data, layout.expert)
