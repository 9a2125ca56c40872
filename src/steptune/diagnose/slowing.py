"""Steps that take longer and longer at the same work: a leak, a filling disk, a throttled device, a growing cache.

The surprise: answers that grow explain longer steps, so without lengths nothing is said; and a mean over such a run
describes none of its steps.
"""

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series, ValueStatus
from steptune.diagnose.durations import said
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import ends, growth, health_finding, whole_steps
from steptune.stats.trend import rises

SLOWED_RATIO = 1.5
"""Last third / first third of the step times from which a run slows down. Prior, as of answers that grow."""

SAME_LENGTH_RATIO = 1.1
"""Last third / first third of the mean lengths up to which the work counts as the same. Prior."""

MIN_STEPS = 9
"""Steps that are needed: three a third, so that one slow step is no trend."""


def slowing(job: Job) -> Finding | None:
    """Find step times that rise while the answers stay as long as they were."""
    times, lengths = job.series("step_time"), job.series("completion_mean")
    if times is None or lengths is None or not _is_measured(times):
        return None
    seconds, tokens = whole_steps(times), whole_steps(lengths)
    if min(len(seconds), len(tokens)) < MIN_STEPS or not rises(seconds):
        return None
    slower, longer = growth(seconds), growth(tokens)
    if slower is None or slower < SLOWED_RATIO or longer is None or longer > SAME_LENGTH_RATIO:
        return None
    first, last = ends(seconds)
    title = (
        f"Steps slow down, {said(first)} to {said(last)} (first and last third), while answers do not grow: "
        f"compare the phases of an early step with those of a late one"
    )
    facts = (
        Evidence(text=f"{times.key} {seconds[-1]:.6g} s", origin=origin_of(times)),
        Evidence(text=f"{lengths.key} {tokens[-1]:.6g}", origin=origin_of(lengths)),
    )
    return health_finding("slowing", title, facts, Severity.WARNING)


def _is_measured(series: Series) -> bool:
    """A mean since the run began is not the time of its step."""
    return any(point.status is ValueStatus.MEASURED for point in series.points)
