"""Does the step time still move? A ramp-up looks like a speed-up, and its mean describes no step.

The surprise: an asynchronous job gets faster while its queue fills (42.8, 32.2, 15.3 s as the async level goes 0, 1, 2
in one public log). That is not warm-up of the code and not a gain: wait until the level stands still.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from steptune.diagnose.job import Job
from steptune.diagnose.vitals import ends, whole_steps
from steptune.stats.trend import MIN_POINTS, rises
from steptune.stats.warmup import num_warmup_steps

MIN_CHANGE_FRAC = 0.2
"""Fall of the step time over the kept steps below which a trend does not matter: runs differ by 15 % anyway (S08)."""

SHORT_FALL_FRAC = 0.15
"""Fall from each of three steps to the next that counts without a test: the first step alone may be slow."""


def ramp_up(job: Job) -> str | None:
    """Return why the steps are not comparable with each other, or None if they look settled."""
    times = _values(job, "step_time")
    level = _values(job, "async_level")
    if _is_climbing(level):
        return f"the async level still moves: {_listed(level)}, with steps of {_listed(times)} s"
    if _is_falling(_per_length(job, times)):
        return f"the step time still falls: {_listed(times)} s"
    return None


def _is_climbing(level: Sequence[float]) -> bool:
    """Whether the last level is above all before it, and in a longer log the rise is no chance."""
    if len(level) < 2 or not level[-1] > max(level[:-1]):
        return False
    return len(level) < MIN_POINTS or rises(level)


def _is_falling(times: Sequence[float]) -> bool:
    if len(times) == 3:
        return all(late < (1 - SHORT_FALL_FRAC) * early for early, late in pairwise(times))
    steady = times[num_warmup_steps(times) :]
    if len(steady) < MIN_POINTS:
        return False
    first, last = ends(steady)
    return last < (1 - MIN_CHANGE_FRAC) * first and rises([-time for time in steady])


def _per_length(job: Job, times: Sequence[float]) -> Sequence[float]:
    """Times per token of the mean answer, where every step has its length: shorter answers are no ramp-up."""
    lengths = _values(job, "completion_mean")
    if len(lengths) != len(times) or not all(length > 0 for length in lengths):
        return times
    per_token = [t / length for t, length in zip(times, lengths, strict=True)]
    return per_token if all(map(math.isfinite, per_token)) else times


def _values(job: Job, name: str) -> list[float]:
    series = job.series(name)
    return [] if series is None else whole_steps(series)


def _listed(values: Sequence[float]) -> str:
    shown = (
        [f"{v:.3g}" for v in values[:3]] + (["..."] if len(values) > 4 else []) + [f"{v:.3g}" for v in values[3:][-1:]]
    )
    return ", ".join(shown)
