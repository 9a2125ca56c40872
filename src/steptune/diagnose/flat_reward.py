"""Rewards that are all equal, by what else a log prints when it prints no spread.

The surprise: a mean reward of 0 is no proof (rewards of both signs cancel), and neither is a loss of 0 (advantages of a
group sum to 0). Both together, or groups counted as flat at that same mean, hardly come about in any other way.
"""

import re

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series
from steptune.diagnose.extremes import extremes
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.one_length import one_length
from steptune.diagnose.vitals import RECENT, health_finding

BOUNDS = (0.0, 1.0)
"""Ends of the scale that most rewards are on: a mean exactly there leaves no room for two different rewards."""

SURE_STEPS = 3
"""Steps on end from which it is a state of the run and no accident of one batch."""

_FLAT_GROUPS = re.compile(r"zero_std/count_(?P<reward>-?\d+(?:\.\d+)?)$")
"""slime's and miles' count of groups without spread, by the reward they share."""


def flat_reward(job: Job) -> Finding | None:
    """Find steps whose mean reward is exactly 0 or 1 and whose groups, loss or gradient say that all were equal."""
    reward = _mean_reward(job)
    if reward is None or _shows_spread(job):
        return None
    recent = reward.finite()[-RECENT:]
    level = recent[-1]
    if level not in BOUNDS or any(value != level for value in recent):
        return None
    other = _flat_groups(job, level) or _no_update(job)
    return None if other is None else _finding(job, reward, other, len(recent))


def _mean_reward(job: Job) -> Series | None:
    """The mean reward as given, not the one normalised within groups, which always is 0."""
    raw = next((s for s in job.paste.series if s.key.endswith("raw_reward") and s.finite()), None)
    return raw or job.series("reward")


def _shows_spread(job: Job) -> bool:
    std, flat = job.series("reward_std"), job.series("zero_std_frac")
    if std is not None and any(std.finite()[-RECENT:]):
        return True
    if flat is not None and any(value < 1 for value in flat.finite()[-RECENT:]):
        return True
    pairs = (extremes(job, word) for word in ("advantages?", "(?:raw_)?(?:scores?|rewards?)"))
    return any(pair is not None and pair[0].finite()[-RECENT:] != pair[1].finite()[-RECENT:] for pair in pairs)


def _flat_groups(job: Job, level: float) -> Series | None:
    """Groups that are counted as flat at the very reward that is the mean of all."""
    for series in job.paste.series:
        counted = _FLAT_GROUPS.search(series.key)
        if counted and float(counted["reward"]) == level and series.finite() and min(series.finite()[-RECENT:]) > 0:
            return series
    return None


def _no_update(job: Job) -> Series | None:
    """A gradient, or a loss where no gradient is printed, of exactly 0 in every one of the last steps."""
    found = (job.series(name) for name in ("grad_norm", "loss"))
    first = next((series for series in found if series is not None), None)
    return first if first is not None and not any(first.finite()[-RECENT:]) else None


def _finding(job: Job, reward: Series, other: Series, num_steps: int) -> Finding:
    facts = tuple(Evidence(text=f"{s.key} {s.finite()[-1]:g}", origin=origin_of(s)) for s in (reward, other))
    what = f"the mean reward is exactly {reward.finite()[-1]:g} and `{other.key}` is {other.finite()[-1]:g}"
    if num_steps < SURE_STEPS:
        here = "one step that is" if num_steps == 1 else f"{num_steps} steps that are"
        title = (
            f"In the {here} here {what}: the same reward for all answers teaches nothing, and only "
            f"rewards of both signs that cancel would look alike; look at the reward first"
        )
        return health_finding("dead_reward", title, facts, Severity.WARNING)
    title = f"Dead run: {what} in {num_steps} steps on end, so nothing is learnt; fix the reward first"
    return health_finding("dead_reward", title, (*facts, *one_length(job)), Severity.FAULT)
