"""Samples spend their time in tools, sandboxes or rewards while the engine idles: seen in timers of single samples.

The surprise: these timers are means over samples that run side by side, so they never add up to the rollout. What
counts is their share of a sample's life: where the environment's part is most of it, no engine setting can help.
"""

import re
from typing import NamedTuple

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.paste import Series
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, cost_bottleneck
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, origin_of

WORDS = {
    "sandbox": re.compile(r"sandbox|container|paddock"),
    "tools": re.compile(r"tool|agent(?!_loop/generate)|search|non_generation"),
    "reward": re.compile(r"reward|verif|score|judge"),
    "the environment": re.compile(r"env(?!_vars)"),
}
"""What a timer's name says of who keeps the sample waiting."""

_SECONDS = re.compile(r"time|_s\b|_s/|duration|timing|seconds")
_MEAN = re.compile(r"(?:^|[/_ ])(?:mean|avg|average)(?:_s)?$")
_GENERATION = re.compile(r"generate|generation_(?:s|time)|http_s")


class _Wait(NamedTuple):
    what: str
    series: Series
    mean_s: float


def sample_waits(job: Job, step_s: float, threshold: float) -> Cause | None:
    """Find the part of the rollout in which a mean sample waits for something else than the engine."""
    if job.profile is None:
        return None
    rollout_s = cost_s(job.profile, Phase.ROLLOUT)
    longest = max(_waits(job, rollout_s), key=lambda wait: wait.mean_s, default=None)
    if longest is None or rollout_s <= 0:
        return None
    frac = longest.mean_s / rollout_s
    if not frac * rollout_s >= threshold * step_s:
        return None
    text = (
        f"a mean sample spends {said(longest.mean_s)} of {said(rollout_s)} of rollout in {longest.what} "
        f"(`{longest.series.key}`){_engine(job)}: no GPU setting shortens that"
    )
    bottleneck = cost_bottleneck(
        BottleneckKind.ENVIRONMENT_BOUND,
        step_s=step_s,
        cost_s=longest.mean_s,
        evidence=text,
        note="if every sample were shorter by its mean wait",
    )
    fact = Evidence(text=f"{longest.series.key} {longest.mean_s:.4g} s", origin=origin_of(longest.series))
    return Cause(bottleneck=bottleneck, title=f"Waiting for {longest.what}", evidence=(fact,))


def _waits(job: Job, rollout_s: float) -> list[_Wait]:
    named = [(s, s.key.lower()) for s in job.paste.series if s.finite()]
    timers = [(s, key) for s, key in named if _SECONDS.search(key) and _MEAN.search(key) and "without" not in key]
    waits = [_Wait(what, s, _mean(s)) for s, key in timers for what, word in WORDS.items() if word.search(key)]
    return [wait for wait in waits if 0 < wait.mean_s <= rollout_s]


def _engine(job: Job) -> str:
    """Seconds in the engine for comparison, where they are printed beside it."""
    for series in job.paste.series:
        key = series.key.lower()
        if _GENERATION.search(key) and _MEAN.search(key) and "non_generation" not in key and series.finite():
            return f", {said(_mean(series))} in the engine"
    return ""


def _mean(series: Series) -> float:
    return sum(series.finite()) / len(series.finite())
