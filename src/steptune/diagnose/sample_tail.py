"""A few samples keep the batch waiting, seen in the timers of single samples and not only in lengths.

The surprise: lengths in tokens say how far rows lie apart, these seconds how long the others stood still; where both
are there, the seconds count.
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, mean_of, origin_of
from steptune.diagnose.long_tail import LEVERS

MEAN_KEY = "timing_s/agent_loop/generate_sequences/mean"
"""Seconds of a mean sample in the engine (verl's agent loop)."""

SLOWEST_KEYS = ("timing_s/agent_loop/generate_sequences/max", "timing_s/agent_loop/slowest/generate_sequences")
"""Seconds of the sample that took longest."""

MIN_STRETCH = 1.5
"""Slowest / mean from which samples lie apart: a third of the slots' time is then unused. Prior."""


def sample_tail(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find the rollout time in which a mean sample has ended and the slowest has not."""
    mean, slowest = job.series(MEAN_KEY), job.series(*SLOWEST_KEYS)
    if mean is None or slowest is None or job.profile is None or step_s is None or job.profile.schedule == "async":
        return None
    mean_s, slowest_s = mean_of(mean), mean_of(slowest)
    if not (0 < MIN_STRETCH * mean_s <= slowest_s <= cost_s(job.profile, Phase.ROLLOUT)):
        return None
    if not is_worth_a_name(slowest_s - mean_s, step_s, threshold):
        return None
    return Cause(
        kind=BottleneckKind.LONG_TAIL,
        subject="the tail of long completions",
        text=f"the slowest sample generates for {said(slowest_s)}, a mean one for {said(mean_s)}: "
        f"{1 - mean_s / slowest_s:.0%} of that time the mean slot is empty",
        facts=tuple(Evidence(text=f"{s.key} {mean_of(s):.6g} s", origin=origin_of(s)) for s in (mean, slowest)),
        cost_s=slowest_s - mean_s,
        step_s=step_s,
        note="as if every sample ended with the mean one",
        levers=LEVERS,
    )
