"""Prices a stream's pieces off the same curves, factors and corrections as the step's forecast.

Surprise: a plan has its iterations in bulk, so many with so many rows; the race needs the price at any number of rows.
It takes one of the plan's own decode items and asks its curve at another size.
"""

import math
from dataclasses import dataclass
from typing import final

from steptune.core.errors import explain
from steptune.core.event import Part
from steptune.core.phase import Phase, Role, parent_phase
from steptune.core.work import PlannedWork, WorkItem
from steptune.forecast.curve import ForecastError
from steptune.forecast.lag.costs import StreamCosts
from steptune.forecast.model import ModelStep, StepModel
from steptune.forecast.parts import part_of
from steptune.forecast.side import Key, repetition_s
from steptune.forecast.step import Side, lay_out, side_of

DECODE, PREFILL = f"{Phase.ROLLOUT.value}/decode", f"{Phase.ROLLOUT.value}/prefill"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPrices:
    """Everything a stream costs, before either side is moved within its interval."""

    model: StepModel
    decode: WorkItem
    """One of the plan's items; its size is replaced."""
    prefill: WorkItem | None
    scale: dict[str, float]
    """By phase: calibration, what trials taught, and the other side at work."""
    load_s: float
    group_s: float
    train_s: float
    handover_s: float

    def costs(self, *, rollout: float, train: float) -> StreamCosts:
        """Return the costs with each side's seconds multiplied."""
        decode, prefill = {}, {}

        def decode_s(rows: int) -> float:
            if rows not in decode:
                decode[rows] = rollout * self._one_s(self.decode, DECODE, rows)
            return decode[rows]

        def prefill_s(positions: int) -> float:
            if self.prefill is None:
                return 0.0
            if positions not in prefill:
                prefill[positions] = rollout * self._one_s(self.prefill, PREFILL, positions)
            return prefill[positions]

        return StreamCosts(
            decode_s=decode_s,
            prefill_s=prefill_s,
            load_s=self.load_s,
            group_s=rollout * self.group_s,
            train_s=train * self.train_s,
            handover_s=self.handover_s,
        )

    def _one_s(self, item: WorkItem, phase: str, x: int) -> float:
        return self.scale[phase] * repetition_s(item.model_copy(update={"x": float(x)}), self.model.book)


def stream_prices(
    model: StepModel, step: ModelStep, planned: PlannedWork, factors: dict[Part, float], groups_per_step: int
) -> StreamPrices:
    """Return the prices of a planned stream.

    Raises:
        ForecastError: the plan has no decode iterations by their rows.
    """
    decode = next((item for item in planned.items if item.phase == DECODE), None)
    if decode is None:
        raise ForecastError(
            explain(
                "the ages of a stream need its decode iterations",
                got=", ".join(sorted({item.phase for item in planned.items})) or "an empty plan",
                allowed=f"items of `{DECODE}` by rows running",
                hint="let the adapter plan them",
            )
        )
    alone_s = {key: s * factors.get(part, 1.0) if (part := part_of(key)) else s for key, s in step.alone_s.items()}
    laid = lay_out(step.parts.schedule, alone_s)
    total = {side: math.fsum(s for key, s in laid.seconds.items() if side_of(key) is side) for side in Side}
    loads = _total(laid.seconds, Role.ROLLOUT, Phase.WEIGHT_SYNC)
    given = _total(laid.seconds, Role.TRAINER, Phase.WEIGHT_SYNC)
    num_loads = math.fsum(
        i.count for i in planned.items if i.role is Role.ROLLOUT and parent_phase(i.phase) is Phase.WEIGHT_SYNC
    )
    by_item = math.fsum(laid.seconds.get((Role.ROLLOUT, phase), 0.0) for phase in (DECODE, PREFILL))
    scale = {phase: _scale(model, alone_s, laid.seconds, factors, (Role.ROLLOUT, phase)) for phase in (DECODE, PREFILL)}
    return StreamPrices(
        model=model,
        decode=decode,
        prefill=next((item for item in planned.items if item.phase == PREFILL), None),
        scale=scale,
        load_s=loads / num_loads if num_loads > 0 else 0.0,
        group_s=max(0.0, total[Side.ROLLOUT] - by_item - loads) / groups_per_step,
        train_s=total[Side.TRAINER] + total[Side.SERIAL] - given,
        handover_s=given,
    )


def _total(seconds: dict[Key, float], role: Role, phase: Phase) -> float:
    return math.fsum(s for (who, what), s in seconds.items() if who is role and parent_phase(what) is phase)


def _scale(
    model: StepModel, alone_s: dict[Key, float], laid_s: dict[Key, float], factors: dict[Part, float], key: Key
) -> float:
    """Return forecast seconds / the curves' seconds of a phase; ``alone_s`` is without the other side at work."""
    crowd = laid_s[key] / alone_s[key] if alone_s.get(key, 0.0) > 0 else 1.0
    return model.calibration.factor(key) * factors.get("rollout", 1.0) * crowd
