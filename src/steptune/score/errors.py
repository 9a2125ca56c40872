"""How far a step model is off on public runs: alone, calibrated on one row, and in the ratio of two rows.

Errors are |ln(forecast / measured)|: twice too long and half as long are equally wrong. A refusal is no error; how many
questions were answered stands beside every figure, for a model could else answer the easy ones alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from steptune.published.levers import PairKind
from steptune.published.public_run import PublicRun
from steptune.score.groups import Group, Pair, step_of
from steptune.score.model import StepModel, forecast_s
from steptune.score.quantiles import as_frac, equal_weight_quantile
from steptune.score.spread import Bounds, over_groups, weighted_median

LARGE_MOVE = math.log(1.1)
"""|ln ratio| above which a move is large: below it, no change is a good forecast."""

PairFilter = Callable[[Pair], bool]
"""Which pairs count."""

ModelFor = Callable[[str], StepModel]
"""Returns the model that was fitted without the rows of one owner."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Errors of one statistic, by job: ``Errors(by_group={"verl-fa-7b-128": (0.12, ...)}, num_asked=20)``."""

    by_group: Mapping[str, tuple[float, ...]]
    num_asked: int
    """Questions, refused ones included."""

    @property
    def num_answered(self) -> int:
        """Questions that were answered."""
        return sum(map(len, self.by_group.values()))

    @property
    def num_groups(self) -> int:
        """Jobs with at least one answer."""
        return sum(1 for errors in self.by_group.values() if errors)

    @property
    def median_frac(self) -> float | None:
        """Median error as a fraction, jobs weighted equally."""
        return as_frac(equal_weight_quantile(self.by_group, 0.5))

    @property
    def median_bounds_frac(self) -> Bounds | None:
        """80 % interval of the median over jobs."""
        found = over_groups(self.by_group, weighted_median)
        return None if found is None else (math.expm1(found[0]), math.expm1(found[1]))

    @property
    def p90_frac(self) -> float | None:
        """90th percentile as a fraction, jobs weighted equally."""
        return as_frac(equal_weight_quantile(self.by_group, 0.9))


def errors_alone(model: StepModel, groups: Sequence[Group]) -> Errors:
    """Return the errors of every row from what it states, with nothing measured."""
    return _collect((group.name, _error(forecast_s(model, run, None), run)) for group in groups for run in group.runs)


def errors_calibrated(model: StepModel, groups: Sequence[Group]) -> Errors:
    """Return the errors of every row after calibrating on each other row of its job that it can be compared with."""
    return _collect(
        (group.name, _error(forecast_s(model, pair.other, pair.base), pair.other))
        for group in groups
        for pair in group.pairs
    )


def errors_of_ratio(model: StepModel, groups: Sequence[Group], counts: PairFilter = lambda pair: True) -> Errors:
    """Return the errors of the forecast ratio of two rows, both forecast after calibrating on the first."""
    return _collect((group.name, _ratio_error(model, pair)) for group in groups for pair in group.pairs if counts(pair))


def errors_left_out(model_for: ModelFor, groups: Sequence[Group], counts: PairFilter) -> Errors:
    """Return the ratio errors of every source by the model that was fitted without it: leave one source out."""
    owners = sorted({group.owner for group in groups})
    folds = [
        errors_of_ratio(model_for(owner), [group for group in groups if group.owner == owner], counts)
        for owner in owners
    ]
    return Errors(
        by_group={name: errors for fold in folds for name, errors in fold.by_group.items()},
        num_asked=sum(fold.num_asked for fold in folds),
    )


def is_structural(pair: Pair) -> bool:
    """Return whether layout, devices, placement, schedule, lengths, batching or memory settings moved."""
    return pair.kind is PairKind.STRUCTURAL


def is_kernel(pair: Pair) -> bool:
    """Return whether kernels or patches alone moved."""
    return pair.kind is PairKind.KERNEL


def is_large(pair: Pair) -> bool:
    """Return whether the step time moved by more than 10 %."""
    return abs(pair.log_ratio) > LARGE_MOVE


def forecast_log_ratio(model: StepModel, base: PublicRun, other: PublicRun) -> float | None:
    """Return ln(other / base) as forecast; from what both state where ``base`` was not measured. None refuses."""
    anchor = base if base.step_time_s is not None else None
    base_s, other_s = forecast_s(model, base, anchor), forecast_s(model, other, anchor)
    return None if base_s is None or other_s is None else math.log(other_s / base_s)


def _ratio_error(model: StepModel, pair: Pair) -> float | None:
    forecast = forecast_log_ratio(model, pair.base, pair.other)
    return None if forecast is None else abs(forecast - pair.log_ratio)


def _error(forecast: float | None, run: PublicRun) -> float | None:
    return None if forecast is None else abs(math.log(forecast / step_of(run)))


def _collect(found: Iterable[tuple[str, float | None]]) -> Errors:
    by_group: dict[str, list[float]] = {}
    num_asked = 0
    for name, error in found:
        num_asked += 1
        answered = by_group.setdefault(name, [])
        if error is not None:
            answered.append(error)
    return Errors(by_group={name: tuple(errors) for name, errors in by_group.items()}, num_asked=num_asked)
