"""Samples spend their time in tools, sandboxes or rewards while the engine idles: seen in timers of single samples.

The surprise: these timers are means over samples that run side by side, so they never add up to the rollout. What
counts is their part of a sample's life: where the environment takes most of it, no engine setting can help.
"""

import re
from typing import NamedTuple

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.paste import Series
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, mean_of, origin_of

WORDS = {
    "the sandbox": re.compile(r"sandbox|container|paddock"),
    "tools": re.compile(r"tool|agent(?!_loop/generate)|search"),
    "the reward": re.compile(r"reward|verif|score|judge"),
    "the environment": re.compile(r"env_|environment|non_generation"),
}
"""What a timer's name says of who keeps the sample waiting, the most telling first."""

MIN_FRAC = 0.15
"""Part of the rollout that a mean sample must wait before it is named where the step is unknown. Prior."""

_SECONDS = re.compile(r"time|_s(?:\b|/)|duration|timing|seconds")
_MEAN = re.compile(r"(?:^|[/_ ])(?:mean|avg|average)(?:_s)?$")
_ENGINE = re.compile(r"(?<!non_)generat\w*")


class _Wait(NamedTuple):
    what: str
    series: Series


def sample_waits(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find the part of the rollout in which a mean sample waits for something else than the engine."""
    rollout_s = _rollout_s(job)
    waits = [wait for wait in _waits(job) if rollout_s is None or 0 < mean_of(wait.series) <= rollout_s]
    if not waits:
        return None
    # the sandbox's own timer says more than the sum around it: the table of words is in that order
    first = max(waits, key=lambda wait: mean_of(wait.series))
    wait_s, engine = mean_of(first.series), _engine(job)
    is_known = step_s is not None and rollout_s is not None
    if is_known and not is_worth_a_name(wait_s, step_s or 0.0, threshold):
        return None
    if not is_known and not _dominates(wait_s, rollout_s, engine):
        return None
    named = ", ".join(f"`{w.series.key}` {said(mean_of(w.series))}" for w in _longest(waits))
    of = f" of {said(rollout_s)} of rollout" if rollout_s is not None else ""
    beside = f" against {said(mean_of(engine))} in the engine (`{engine.key}`)" if engine is not None else ""
    return Cause(
        kind=BottleneckKind.ENVIRONMENT_BOUND,
        subject=f"waiting for {first.what}",
        text=f"a mean sample spends {said(wait_s)}{of} in {first.what}: {named}{beside}; no GPU setting shortens that",
        facts=tuple(_fact(w.series) for w in _longest(waits)),
        cost_s=wait_s if is_known else None,
        step_s=step_s if is_known else None,
        note="if every sample were shorter by its mean wait",
    )


def _rollout_s(job: Job) -> float | None:
    seconds = cost_s(job.profile, Phase.ROLLOUT) if job.profile else 0.0
    if seconds > 0:
        return seconds
    series = job.series("rollout_time", "perf/rollout_time")
    return None if series is None else mean_of(series)


def _dominates(wait_s: float, rollout_s: float | None, engine: Series | None) -> bool:
    if engine is not None:
        return wait_s > mean_of(engine)
    return rollout_s is not None and wait_s >= MIN_FRAC * rollout_s


def _waits(job: Job) -> list[_Wait]:
    timers = [s for s in job.paste.series if s.finite() and mean_of(s) > 0 and _is_mean_time(s)]
    found: list[_Wait] = []
    for series in timers:
        what = next((what for what, word in WORDS.items() if word.search(series.key.lower())), None)
        if what is not None:
            found.append(_Wait(what, series))
    return found


def _is_mean_time(series: Series) -> bool:
    key = series.key.lower()
    return bool(_SECONDS.search(key) and _MEAN.search(key)) and "without" not in key and "per_sec" not in key


def _engine(job: Job) -> Series | None:
    """The mean sample's time in the engine, where it is printed beside the others."""
    timers = (s for s in job.paste.series if s.finite() and _is_mean_time(s))
    return next((s for s in timers if _ENGINE.search(s.key.lower()) and mean_of(s) > 0), None)


def _longest(waits: list[_Wait]) -> list[_Wait]:
    return sorted(waits, key=lambda wait: -mean_of(wait.series))[:3]


def _fact(series: Series) -> Evidence:
    return Evidence(text=f"{series.key} {mean_of(series):.4g} s", origin=origin_of(series))
