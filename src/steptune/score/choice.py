"""Which row a model would choose, and what the choice costs: order, rank and regret.

A job has a budget of devices, so a row is chosen among those of its job with the same devices and batch as the row one
stands on. Surprise: a model without an opinion (*no change*) stays where it is, and so does as well as a random pick.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.published.public_run import PublicRun
from steptune.score.errors import is_large
from steptune.score.groups import Group, step_of
from steptune.score.model import StepModel, forecast_s
from steptune.score.quantiles import equal_weight_mean
from steptune.score.spread import Bounds, over_groups, weighted_mean


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What came of a model's choices, jobs weighted equally."""

    regret_frac: float | None
    """Mean of chosen / best step time, less 1; a refusal stays where it is."""
    regret_bounds_frac: Bounds | None
    """80 % interval over jobs."""
    random_regret_frac: float | None
    """The same for a row picked at random: the floor of ability."""
    mean_rank: float | None
    """Mean rank of the chosen row, 1 the fastest."""
    num_choices: int
    num_groups: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Pairs more than 10 % apart that were put in the right order; no opinion counts half."""

    right_frac: float | None
    num_pairs: int


def choices(model: StepModel, groups: Sequence[Group]) -> Choices:
    """Return regret and rank of the rows the model would choose, standing on each row in turn."""
    regrets: dict[str, list[float]] = defaultdict(list)
    randoms: dict[str, list[float]] = defaultdict(list)
    ranks: dict[str, list[float]] = defaultdict(list)
    for group in groups:
        for here, among in _situations(group):
            times = sorted(map(step_of, among))
            chosen_s = step_of(_chosen(model, here, among))
            regrets[group.name].append(chosen_s / times[0] - 1)
            randoms[group.name].append(math.fsum(times) / len(times) / times[0] - 1)
            ranks[group.name].append(1 + times.index(chosen_s))
    return Choices(
        regret_frac=equal_weight_mean(regrets),
        regret_bounds_frac=over_groups(regrets, weighted_mean),
        random_regret_frac=equal_weight_mean(randoms),
        mean_rank=equal_weight_mean(ranks),
        num_choices=sum(map(len, regrets.values())),
        num_groups=len(regrets),
    )


def order(model: StepModel, groups: Sequence[Group]) -> Order:
    """Return how often the model orders two rows right that are more than 10 % apart."""
    right: dict[str, list[float]] = {}
    for group in groups:
        marks = [_mark(model, pair.base, pair.other, pair.log_ratio) for pair in group.pairs if is_large(pair)]
        answered = [mark for mark in marks if mark is not None]
        if answered:
            right[group.name] = answered
    return Order(right_frac=equal_weight_mean(right), num_pairs=sum(map(len, right.values())))


def _situations(group: Group) -> list[tuple[PublicRun, list[PublicRun]]]:
    alike: dict[tuple[object, ...], list[PublicRun]] = defaultdict(list)
    for run in group.runs:
        if run.n_gpus is not None:
            alike[(run.n_gpus, run.gpu_type, run.samples_per_step)].append(run)
    return [(here, among) for among in alike.values() if len(among) > 1 for here in among]


def _chosen(model: StepModel, here: PublicRun, among: Sequence[PublicRun]) -> PublicRun:
    """Return the row with the shortest forecast; ties and refusals keep the row one stands on."""
    best, best_s = here, forecast_s(model, here, here)
    for run in among:
        run_s = forecast_s(model, run, here)
        if best_s is not None and run_s is not None and run_s < best_s:
            best, best_s = run, run_s
    return best


def _mark(model: StepModel, base: PublicRun, other: PublicRun, log_ratio: float) -> float | None:
    base_s, other_s = forecast_s(model, base, base), forecast_s(model, other, base)
    if base_s is None or other_s is None:
        return None
    if base_s == other_s:
        return 0.5
    return float((other_s > base_s) == (log_ratio > 0))
