"""What the two sides are measured by: the best rate that both state, tokens per device-second first.

A step time is a measure only where the work is the same. Rates of the same name may still count other tokens (slime's
are the rollout's alone), so a rate is taken under the same name on both sides or not at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.compare.ratio import LogMean, log_mean, ratio_of
from steptune.compare.side import Side, num_devices
from steptune.core.estimate import Estimate

RATE_SERIES = (
    ("effective_tokens_per_device_s", "trained tokens per device-second"),
    ("tokens_per_device_s", "tokens per device-second"),
)
"""Series of a rate, and what to call it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One rate of both sides and the ratio B / A: above 1 means that B does more in the same time."""

    name: str
    a: LogMean
    b: LogMean
    ratio: Estimate


def throughput(a: Side, b: Side) -> Measure | None:
    """Return the best rate that both sides state, or None."""
    for series, name in RATE_SERIES:
        found = _measure(name, a.steps(series), b.steps(series))
        if found is not None:
            return found
    profiles = a.paste.profile, b.paste.profile
    rates = [None if profile is None else profile.tokens_per_device_s for profile in profiles]
    if rates[0] is not None and rates[1] is not None:
        found = _measure("tokens per device-second", rates[0], rates[1])
        if found is not None:
            return found
    return _from_tokens(a, b)


def raw_step_ratio(a: Side, b: Side) -> Estimate | None:
    """Return step time A / B as logged; not a speed-up where the work differs."""
    times = a.step_time(), b.step_time()
    if times[0] is None or times[1] is None:
        return None
    logs = log_mean(times[0]), log_mean(times[1])
    return None if logs[0] is None or logs[1] is None else ratio_of(logs[0], logs[1], note="step time as logged, A / B")


def steps_per_second(a: Side, b: Side) -> Measure | None:
    """Return the rate of whole steps, per device where both counts are known: a measure only for the same work."""
    rates = [_inverse(side.step_time()) for side in (a, b)]
    if rates[0] is None or rates[1] is None:
        return None
    devices = num_devices(a), num_devices(b)
    if devices[0] and devices[1] and devices[0] != devices[1]:
        return _of("steps per device-second", _per(rates[0], devices[0]), _per(rates[1], devices[1]))
    return _of("steps per second", rates[0], rates[1])


def _measure(name: str, a: Sequence[float] | Estimate, b: Sequence[float] | Estimate) -> Measure | None:
    logs = log_mean(a), log_mean(b)
    return None if logs[0] is None or logs[1] is None else _of(name, logs[0], logs[1])


def _of(name: str, a: LogMean, b: LogMean) -> Measure:
    return Measure(name=name, a=a, b=b, ratio=ratio_of(b, a, note=f"{name}, B / A"))


def _from_tokens(a: Side, b: Side) -> Measure | None:
    rates = _rates(a), _rates(b)
    if not rates[0] or not rates[1]:
        return None
    devices = num_devices(a), num_devices(b)
    if devices[0] and devices[1]:
        per_device = ([rate / devices[0] for rate in rates[0]], [rate / devices[1] for rate in rates[1]])
        return _measure("tokens per device-second", *per_device)
    if devices[0] or devices[1]:
        return None
    return _measure("tokens per second (device counts unknown, taken as equal)", rates[0], rates[1])


def _rates(side: Side) -> list[float]:
    """Tokens per second, step by step; from the means where steps do not pair up."""
    tokens, times = side.steps("tokens"), side.steps("step_time")
    if tokens and len(tokens) == len(times):
        return [count / seconds for count, seconds in zip(tokens, times, strict=True) if seconds > 0]
    profile = side.paste.profile
    if profile is not None and profile.tokens_per_step is not None and profile.step_time.value > 0:
        return [profile.tokens_per_step.value / profile.step_time.value]
    return []


def _per(rate: LogMean, devices: float) -> LogMean:
    return LogMean(mean=rate.mean - math.log(devices), variance=rate.variance, n=rate.n)


def _inverse(times: list[float] | Estimate | None) -> LogMean | None:
    logs = None if times is None else log_mean(times)
    return None if logs is None else LogMean(mean=-logs.mean, variance=logs.variance, n=logs.n)
