"""Which configuration a question is about: named by it, the best split, the fewest devices, or a whole table.

Surprise: fewer devices are asked for under two ways to meet, as the log has it and one update ahead. Devices that take
turns are nearly never too many; those that overlap often are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from steptune.core.errors import explain
from steptune.forecast.ask.layout import Layout
from steptune.forecast.ask.priced import Grain, Priced, cluster_of
from steptune.forecast.ask.question import Question
from steptune.forecast.cluster.device_counts import KEEPS_FRAC, splits
from steptune.forecast.cluster.join import Join
from steptune.forecast.cluster.sides import Cluster
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.sweep import Space, sweep
from steptune.forecast.curve import ForecastError

ItemT = TypeVar("ItemT")

MOST_COUNTS = 32
"""Device counts that one question asks: every one up to so many, then evenly spaced ones."""

MOST_SPLITS = 24
"""Splits of one device count that are looked at, evenly spaced where there are more."""

SWEEP_COUNTS = 6
"""Device counts in a sweep's table."""

SWEEP_LAGS = (1, 2, 4)
"""Lags in a sweep's table, beside the way the log has it."""

MOST_STRETCH = 4
"""Work per device over the measured, on each side, up to which a split is looked for: the published exponents end at a
quarter of the devices, and a cache that the log does not state ends somewhere. A split that is named may exceed it."""

WORTH_FRAC = 0.01
"""Part by which a larger lag must be faster to get a row of its own: staleness is not free."""

SIMULATE_AT_MOST = 12
"""Splits simulated for one device count and one way to meet; the bound mostly ends it after two or three."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """``Choice(cluster=..., step_s=18.3, is_proven=True)``, in the model's seconds."""

    cluster: Cluster
    step_s: float
    is_proven: bool = True


def counts_of(question: Question) -> tuple[int, ...]:
    """Return the device counts that a side may have under this question, for the grain of ranks."""
    asked = question.split or ((question.devices,) if question.devices else ())
    return tuple(count for count in asked if count)


def choose(layout: Layout, grain: Grain, prices: Priced, question: Question) -> Choice:
    """Return the configuration that a question without a table is about.

    Raises:
        ForecastError: the devices do not make whole ranks and replicas, or no count keeps the step.
    """
    if question.wants_fewest:
        return _fewest(layout, grain, prices, question)
    return _best(prices, _candidates(layout, grain, prices, question))


def table(layout: Layout, grain: Grain, prices: Priced, question: Question) -> tuple[Choice, ...]:
    """Return the best split of every device count and way to meet, fastest first."""
    most = question.devices or layout.num_devices
    lags = (question.max_lag,) if question.max_lag is not None else SWEEP_LAGS
    found: list[Choice] = []
    for count in _counts(grain, most, SWEEP_COUNTS):
        as_now = _splits(layout, grain, prices, count, None)
        found += [] if as_now is None else [_best(prices, as_now)]
        ahead = [s for lag in lags if (s := _splits(layout, grain, prices, count, lag)) is not None]
        found += _worthwhile([_best(prices, space) for space in ahead])
    if not found:
        raise _no_split(grain, most)
    return tuple(sorted(found, key=lambda c: (c.step_s, c.cluster.num_devices)))


def stretch(layout: Layout, prices: Priced, cluster: Cluster) -> float:
    """Return the most work per device of a side over what was measured."""
    least = min(cluster.train.num_devices / layout.train, cluster.rollout.num_devices / layout.rollout)
    return _work_ratio(prices) / least


def _work_ratio(prices: Priced) -> float:
    asked, base = ([len(g.rows) for g in s.work.steps[0]] for s in (prices.asked, prices.base))
    return sum(asked) / sum(base)


def _worthwhile(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices, in the order of their lags, that are faster than all before."""
    kept: list[Choice] = []
    for choice in choices:
        if not kept or choice.step_s < kept[-1].step_s * (1 - WORTH_FRAC):
            kept.append(choice)
    return kept


def _candidates(layout: Layout, grain: Grain, prices: Priced, question: Question) -> Space:
    lag = question.max_lag
    if question.split is not None:
        train, rollout = question.split
        made = cluster_of(
            layout, grain, train=train, rollout=rollout, max_lag=layout.max_lag if lag is None else lag, shares=False
        )
        return _only(made)
    count = question.devices or layout.num_devices
    is_as_measured = lag is None and count == layout.num_devices
    if is_as_measured:
        shares = layout.is_colocated
        return _only(
            cluster_of(layout, grain, train=layout.train, rollout=layout.rollout, max_lag=layout.max_lag, shares=shares)
        )
    if lag is None and layout.is_colocated:
        made = cluster_of(layout, grain, train=count, rollout=count, max_lag=0, shares=True)
        return _only(made)
    space = _splits(layout, grain, prices, count, lag)
    if space is None:
        raise _no_split(grain, count)
    return space


def _fewest(layout: Layout, grain: Grain, prices: Priced, question: Question) -> Choice:
    target_s = step_seconds(prices.base, prices.cluster) * (1 + KEEPS_FRAC)
    join = Join(sides=prices.asked)
    lags = (None, question.max_lag or 1) if question.max_lag is None else (question.max_lag,)
    for count in _counts(grain, question.devices or layout.num_devices, MOST_COUNTS):
        spaces = [space for lag in lags if (space := _splits(layout, grain, prices, count, lag)) is not None]
        kept = [made for space in spaces if (made := _that_may(join, space, target_s)) is not None]
        choices = [_best(prices, space) for space in kept]
        best = min(choices, key=lambda c: c.step_s, default=None)
        if best is not None and best.step_s <= target_s:
            return best
    raise ForecastError(
        explain(
            "no number of devices asked keeps this step time",
            got=f"up to {question.devices or layout.num_devices} devices",
            allowed="a step at most 2 % longer than the measured one",
            hint="allow more lag with `--async N`, or more devices with `--on N`",
        )
    )


def _best(prices: Priced, space: Space) -> Choice:
    found = sweep(prices.asked, space, simulate_at_most=SIMULATE_AT_MOST)
    first = found.ranked[0]
    return Choice(cluster=first.cluster, step_s=step_seconds(prices.asked, first.cluster), is_proven=found.is_proven)


def _that_may(join: Join, space: Space, target_s: float) -> Space | None:
    """Return the part of a space whose lower bound is within the target; None when nothing is."""
    rollouts = {c.rollout for c in space.clusters() if join.least_s(c) <= target_s}
    return replace(space, rollouts=tuple(r for r in space.rollouts if r in rollouts)) if rollouts else None


def _splits(layout: Layout, grain: Grain, prices: Priced, count: int, lag: int | None) -> Space | None:
    """Return the whole splits of ``count`` devices within `MOST_STRETCH`: as measured, or overlapping at ``lag``."""
    max_lag = layout.max_lag if lag is None else lag
    like = cluster_of(
        layout,
        grain,
        train=grain.devices_per_rank,
        rollout=grain.devices_per_replica,
        max_lag=max_lag,
        shares=layout.is_colocated and not max_lag,
    )
    space = splits(like, count)
    if space is None:
        return None
    least = _work_ratio(prices) / MOST_STRETCH
    trains = [t for t in space.trains if t.num_devices >= layout.train * least]
    rollouts = [r for r in space.rollouts if r.num_devices >= layout.rollout * least]
    kept = replace(space, trains=tuple(_spaced(trains, MOST_SPLITS)), rollouts=tuple(rollouts))
    return kept if any(True for _ in kept.clusters()) else None


def _counts(grain: Grain, most: int, at_most: int) -> list[int]:
    """Return device counts up to ``most``, which is one of them, from the smallest."""
    step = max(grain.devices_per_rank, grain.devices_per_replica)
    return _spaced(range(most % step or step, most + 1, step), at_most)


def _spaced(items: Sequence[ItemT], at_most: int) -> list[ItemT]:
    """Return at most so many, evenly spaced, the last one always."""
    if len(items) <= at_most:
        return list(items)
    stride = len(items) / at_most
    return [items[round((i + 1) * stride) - 1] for i in range(at_most)]


def _only(cluster: Cluster) -> Space:
    return Space(
        rollouts=(cluster.rollout,),
        trains=(cluster.train,),
        queues=(cluster.queue,),
        placements=(cluster.is_colocated,),
    )


def _no_split(grain: Grain, count: int) -> ForecastError:
    return ForecastError(
        explain(
            f"{count} devices do not make whole ranks and replicas",
            got=f"{grain.devices_per_rank} devices a rank, {grain.devices_per_replica} a replica",
            allowed=f"counts that both divide, each side with a {MOST_STRETCH}th of its measured devices or more",
            hint="name the split with `--split TRAIN:ROLLOUT`",
        )
    )
