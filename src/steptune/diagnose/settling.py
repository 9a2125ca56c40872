"""Does the step time still move? A ramp-up looks like a speed-up, and its mean describes no step.

The surprise: an asynchronous job gets faster while its queue fills (42.8, 32.2, 15.3 s as the async level goes 0, 1, 2
in one public log). That is not warm-up of the code and not a gain: wait until the level stands still.
"""

from collections.abc import Sequence

from steptune.diagnose.job import Job
from steptune.stats.trend import MIN_POINTS, trend
from steptune.stats.warmup import num_warmup_steps

SIGNIFICANT_P = 0.05
"""One-sided level at which a trend counts."""

MIN_CHANGE_FRAC = 0.2
"""Fall of the step time over the kept steps below which a trend does not matter: runs differ by 15 % anyway (S08)."""

SHORT_FALL_FRAC = 0.3
"""Fall that three steps must show, every one shorter than the last: too few for a test."""


def ramp_up(job: Job) -> str | None:
    """Return why the steps are not comparable with each other, or None if they look settled."""
    times = _values(job, "step_time")
    level = _values(job, "async_level")
    if len(level) >= 2 and level[-1] != level[-2]:
        return f"the async level still moves: {_listed(level)}, with steps of {_listed(times)} s"
    if _is_falling(times):
        return f"the step time still falls: {_listed(times)} s"
    return None


def _is_falling(times: Sequence[float]) -> bool:
    if len(times) == 3:
        return times[0] > times[1] > times[2] and times[2] < (1 - SHORT_FALL_FRAC) * times[0]
    steady = times[num_warmup_steps(times) :]
    if len(steady) < MIN_POINTS:
        return False
    is_large = steady[-1] < (1 - MIN_CHANGE_FRAC) * steady[0]
    return is_large and trend([-t for t in steady]).p_rising < SIGNIFICANT_P


def _values(job: Job, name: str) -> list[float]:
    series = job.series(name)
    return [] if series is None else series.finite()


def _listed(values: Sequence[float]) -> str:
    shown = (
        [f"{v:.3g}" for v in values[:3]] + (["..."] if len(values) > 4 else []) + [f"{v:.3g}" for v in values[3:][-1:]]
    )
    return ", ".join(shown)
