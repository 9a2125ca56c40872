"""Rewards that teach nothing, and rewards that fall."""

import math
import statistics

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series
from steptune.diagnose.extremes import extremes
from steptune.diagnose.flat_reward import flat_reward
from steptune.diagnose.idle_groups import idle_groups
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.one_length import one_length
from steptune.diagnose.vitals import RECENT, health_finding, whole_steps
from steptune.stats.trend import rises

DEAD_FRAC = 0.999
"""Groups whose rewards are all equal, from which no gradient is left."""

CRITIC_WORDS = ("vf_loss", "vf_explained", "critic/values", "value_loss", "critic_loss")
"""In keys: a job with a learnt value function, whose advantages need no spread inside a group."""

MIN_DROP_POINTS = 6
"""Two points in each third: fewer cannot show a fall."""

NUM_ERRORS = 3.0
"""Standard errors by which the last third must lie below the first: rewards of one batch wander by two."""


def dead_reward(job: Job) -> Finding | None:
    """Find steps in which no group has two different rewards."""
    for name, is_dead, what in (
        ("zero_std_frac", _all_equal, "every group's rewards are all equal"),
        ("reward_std", _all_zero, "the spread of the rewards is 0"),
    ):
        series = job.series(name)
        if series is not None and is_dead(series):
            num_steps = len(series.finite()[-RECENT:])
            fact = Evidence(text=f"{series.key} {series.finite()[-1]:g}", origin=origin_of(series))
            if num_steps == 1:
                title = f"In the one step that is here {what}: it teaches nothing; look at the reward first"
                return health_finding("dead_reward", title, (fact,), Severity.WARNING)
            title = f"Dead run: {what} in {num_steps} steps on end, so nothing is learnt; fix the reward first"
            return health_finding("dead_reward", title, (fact, *one_length(job)), Severity.FAULT)
    return _without_spread(job) or flat_reward(job) or idle_groups(job)


def _without_spread(job: Job) -> Finding | None:
    """Highest and lowest advantage both 0, or highest and lowest score equal, in every one of the last steps.

    A mean advantage of 0 says nothing: within a group it always is. With a critic equal scores still teach.
    """
    has_critic = any(word in s.key for s in job.paste.series for word in CRITIC_WORDS)
    for word, must_be_zero, what in (
        ("advantages?", True, "every advantage is 0: the scores of each group are all equal"),
        ("(?:raw_)?(?:scores?|rewards?)", False, "every sample has the same score"),
    ):
        ends = extremes(job, word)
        if ends is None or (has_critic and not must_be_zero):
            continue
        high, low = (series.finite()[-RECENT:] for series in ends)
        if len(high) != len(low) or any(h != low_ or (must_be_zero and h) for h, low_ in zip(high, low, strict=True)):
            continue
        facts = tuple(Evidence(text=f"{s.key} {s.finite()[-1]:g}", origin=origin_of(s)) for s in ends)
        if len(high) == 1:
            title = f"In the one step that is here {what}: it teaches nothing; look at the reward first"
            return health_finding("dead_reward", title, facts, Severity.WARNING)
        title = f"Dead run: {what} in {len(high)} steps on end, so nothing is learnt; fix the reward first"
        return health_finding("dead_reward", title, facts, Severity.FAULT)
    return None


def reward_drop(job: Job) -> Finding | None:
    """Find a fall of the reward that chance does not explain."""
    series = job.series("reward")
    values = [] if series is None else whole_steps(series)
    if series is None or len(values) < MIN_DROP_POINTS:
        return None
    third = len(values) // 3
    first, last = values[:third], values[-third:]
    error = math.hypot(*(statistics.stdev(part) / math.sqrt(third) for part in (first, last)))
    drop = statistics.fmean(first) - statistics.fmean(last)
    if not (rises([-value for value in values]) and drop > NUM_ERRORS * error):
        return None
    title = (
        f"The reward falls, {statistics.fmean(first):.3g} to {statistics.fmean(last):.3g}: fix this before any speed"
    )
    fact = Evidence(text=f"{series.key} {values[-1]:g}", origin=origin_of(series))
    return health_finding("reward_drop", title, (fact,), Severity.WARNING)


def _all_zero(series: Series) -> bool:
    return all(value == 0 for value in series.finite()[-RECENT:])


def _all_equal(series: Series) -> bool:
    return all(value >= DEAD_FRAC for value in series.finite()[-RECENT:])
