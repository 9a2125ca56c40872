"""Error of a forecast memory peak against the peak a source states, for what fitted.

Kinds of job weigh the same (framework, stage, adapters or not): one benchmark table holds most of the peaks. Surprise:
sources state different things, PyTorch's allocated or reserved peak or what the driver shows, and a peak below the
card's size may be what the allocator happened to hold; a few per cent between two rows mean nothing.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import final

from steptune.core.records import Record
from steptune.core.units import BYTES_PER_GIB
from steptune.published.memory_cases import MemoryCase, MemoryLabel, MemoryOutcome
from steptune.score.memory import BYTES_PER_PARAM, blinded
from steptune.score.quantiles import as_frac, equal_weight_mean, equal_weight_quantile

PeakModel = Callable[[MemoryCase], float | None]
"""A forecast of the highest memory of one GPU in GiB; None where it cannot say."""


@final
class PeakLine(Record):
    """One arm's errors on one side: ``PeakLine(side="fit", arm="footprint", median_frac=0.27, ...)``."""

    side: str
    arm: str
    median_frac: float | None
    p90_frac: float | None
    above_frac: float | None
    """Share of forecasts above the measured peak."""
    num_groups: int
    num_answered: int
    num_asked: int


def peak_lines(arms: Sequence[tuple[str, PeakModel]], cases: Iterable[MemoryCase]) -> tuple[PeakLine, ...]:
    """Return every arm's errors, per side; a peak whose tokens are not known (label `weak`) is not asked for."""
    known = [case for case in cases if case.label is not MemoryLabel.WEAK and case.outcome is MemoryOutcome.FIT]
    asked = [case for case in known if case.peak_gib is not None]
    sides = {side: [case for case in asked if case.side == side] for side in sorted({str(c.side) for c in asked})}
    return tuple(_line(side, name, model, members) for side, members in sides.items() for name, model in arms)


def sixteen_bytes_gib(case: MemoryCase) -> float | None:
    """Return 16 bytes a parameter spread over the training GPUs, 2 with adapters."""
    num_gpus = case.num_train_gpus if case.num_train_gpus is not None else case.num_gpus
    if case.params_billions is None or not num_gpus:
        return None
    return case.params_billions * 1e9 * (2 if case.is_lora else BYTES_PER_PARAM) / num_gpus / BYTES_PER_GIB


def whole_card_gib(case: MemoryCase) -> float | None:
    """Return the size of the card: what a peak is if people fill what they have."""
    return case.gpu_memory_gb


TRIVIAL_PEAKS: tuple[tuple[str, PeakModel], ...] = (
    ("whole card", whole_card_gib),
    ("16 bytes a parameter", sixteen_bytes_gib),
)
"""What every error of a peak stands beside."""


def _line(side: str, name: str, model: PeakModel, cases: Sequence[MemoryCase]) -> PeakLine:
    logs: defaultdict[str, list[float]] = defaultdict(list)
    for case in cases:
        forecast = model(blinded(case))
        if forecast and case.peak_gib:
            logs[f"{case.framework} {case.stage} {case.is_lora}"].append(math.log(forecast / case.peak_gib))
    errors = {group: [abs(log) for log in members] for group, members in logs.items()}
    return PeakLine(
        side=side,
        arm=name,
        median_frac=as_frac(equal_weight_quantile(errors, 0.5)),
        p90_frac=as_frac(equal_weight_quantile(errors, 0.9)),
        above_frac=equal_weight_mean({group: [float(log > 0) for log in members] for group, members in logs.items()}),
        num_groups=len(logs),
        num_answered=sum(map(len, logs.values())),
        num_asked=len(cases),
    )
