"""The ratio's error in logs: each price a deviation up, each unstated fact at the values that are as likely.

What is asked again is the *ratio* to the measured run, calibrated anew every time. So a fact that lengthens both steps
alike costs nothing, and one that decides how the rollout answers to devices is seen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from steptune.forecast.ask.facts import Fact
from steptune.forecast.ask.layout import Layout
from steptune.forecast.ask.measured import Measured
from steptune.forecast.ask.priced import Grain, Priced, grain_of, priced
from steptune.forecast.cluster.sides import Cluster
from steptune.forecast.cluster.step import ERROR_STEPS, MODEL_LOG_SD, log_errors, step_seconds
from steptune.forecast.curve import ForecastError

LARGER_REPLICAS = (2, 4)
"""Devices per replica that are asked beside one, where the log does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """``Spread(prices={"rollout": 0.01, ...}, facts={"group_size": 0.04}, log_sd=0.11)``."""

    prices: dict[str, float]
    """Change of the log of the ratio by side."""
    facts: dict[str, float]
    """Largest change of the log of the ratio over a fact's alternatives."""
    log_sd: float


def spread_of(
    layout: Layout,
    measured: Measured,
    facts: Mapping[str, Fact],
    changed: Mapping[str, float],
    grain: Grain,
    prices: Priced,
    asked: Cluster,
) -> Spread:
    """Return what is not known of asked / measured; nothing where both are the same."""
    if asked == prices.cluster and not changed:
        return Spread(prices={}, facts={}, log_sd=0.0)
    base, own = log_errors(prices.base, prices.cluster), log_errors(prices.asked, asked)
    sides = {side: own[side] - base[side] for side in own}
    values = {name: fact.value for name, fact in facts.items()}
    mid = _log_ratio(prices, asked)
    moved: dict[str, float] = {}
    for name, fact in facts.items():
        others = [o for value in fact.alternatives if (o := _asked_at(values, name, value)) is not None]
        logs = [_again(layout, measured, other, changed, grain, asked) for other in others]
        found = [abs(log - mid) for log in logs if log is not None]
        if found:
            moved[name] = max(found)
    if not layout.are_replicas_stated:
        logs = [_larger(layout, measured, values, changed, grain, asked, size) for size in LARGER_REPLICAS]
        found = [abs(log - mid) for log in logs if log is not None]
        moved.update({"replicas": max(found)} if found else {})
    if asked.queue.schedule == "async":
        in_order = replace(asked, queue=replace(asked.queue, consume="in_order"))
        moved["order"] = abs(_log_ratio(prices, in_order) - mid)
    terms = (*sides.values(), *moved.values(), MODEL_LOG_SD, prices.base.work.length_log_sd)
    return Spread(prices=sides, facts=moved, log_sd=math.hypot(*terms))


def _asked_at(values: Mapping[str, float], name: str, value: float) -> dict[str, float] | None:
    """Return the facts with one of them changed; None where that makes no lengths."""
    other = {**values, name: value}
    return other if other["completion_mean"] <= other["completion_max"] else None


def _again(
    layout: Layout,
    measured: Measured,
    values: Mapping[str, float],
    changed: Mapping[str, float],
    grain: Grain,
    asked: Cluster,
) -> float | None:
    counts = (asked.train.num_devices, asked.rollout.num_devices)
    thinned = grain_of(layout, values, changed, counts)
    own = replace(grain, thin_groups=thinned.thin_groups, thin_rows=thinned.thin_rows)
    try:
        return _log_ratio(priced(layout, measured, values, changed, own), asked)
    except ForecastError:  # lengths that nothing can be drawn from are no alternative
        return None


def _larger(
    layout: Layout,
    measured: Measured,
    values: Mapping[str, float],
    changed: Mapping[str, float],
    grain: Grain,
    asked: Cluster,
    size: int,
) -> float | None:
    """Return the same with ``size`` devices a replica; None where the devices do not make whole ones."""
    if layout.rollout % size or asked.rollout.num_devices % size:
        return None
    knobs = replace(asked.rollout, num_replicas=asked.rollout.num_devices // size, devices_per_replica=size)
    return _again(
        replace(layout, replicas=layout.rollout // size),
        measured,
        values,
        changed,
        replace(grain, devices_per_replica=size),
        replace(asked, rollout=knobs),
    )


def _log_ratio(prices: Priced, asked: Cluster) -> float:
    base_s = step_seconds(prices.base, prices.cluster, num_steps=ERROR_STEPS)
    return math.log(step_seconds(prices.asked, asked, num_steps=ERROR_STEPS) / base_s)
