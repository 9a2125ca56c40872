"""Part of the samples that teach nothing: groups, or whole steps, in which every answer earned the same.

The surprise: a run can learn and still throw most of its generation away. That is no dead run, and it is not a matter
of time either, so nothing is claimed about speed: it is said how much of the data counts for nothing.
"""

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import health_finding, whole_steps

MANY_GROUPS_FRAC = 0.5
"""Groups without spread above which more samples are wasted than used. DAPO (arXiv 2503.14476, section 3.2) filters
them; its figure 3b shows the part of all-right groups alone rising to 0.4 in a run that goes well."""

MANY_STEPS_FRAC = 0.25
"""Steps without any spread from which it is worth a word: in such a step every group is flat at once. Prior."""

MIN_STEPS = 8
"""Steps below which a part of them is an accident of a few batches."""

ADVICE = "mix harder and easier prompts, enlarge the group, or filter flat groups while sampling"


def idle_groups(job: Job) -> Finding | None:
    """Find groups or steps without spread that are many and not all: all of them are a dead reward."""
    return _groups(job) or _steps(job)


def _groups(job: Job) -> Finding | None:
    series = job.series("zero_std_frac")
    if series is None:
        return None
    values = whole_steps(series)
    frac = sum(values) / len(values)
    if not MANY_GROUPS_FRAC < frac <= 1:
        return None
    of = "of this one step" if len(values) == 1 else f"of {len(values)} steps"
    title = f"{frac * 100:.3g} % of the groups {of} have equal rewards: they teach nothing; {ADVICE}"
    return _finding(title, series, values)


def _steps(job: Job) -> Finding | None:
    series = job.series("reward_std")
    values = [] if series is None else whole_steps(series)
    num_flat = sum(value == 0 for value in values)
    if series is None or len(values) < MIN_STEPS or not MANY_STEPS_FRAC * len(values) <= num_flat < len(values):
        return None
    title = (
        f"{num_flat} of {len(values)} steps ({num_flat / len(values):.0%}) have a reward spread of exactly 0: they "
        f"teach nothing; {ADVICE}"
    )
    return _finding(title, series, values)


def _finding(title: str, series: Series, values: list[float]) -> Finding:
    fact = Evidence(text=f"{series.key} {values[-1]:g}", origin=origin_of(series))
    return health_finding("dead_reward", title, (fact,), Severity.WARNING)
