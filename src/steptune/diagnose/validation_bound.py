"""Validation inside the step takes a visible part of it. It trains nothing, so it may be rarer at no other cost.

The surprise: like a save it stands in few steps, so a log of one step with it says nothing of the run.
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase, parent_phase
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job


def validation_bound(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find the time of validation, as the mean over the steps seen."""
    if job.profile is None or step_s is None:
        return None
    seconds = cost_s(job.profile, Phase.VALIDATE)
    if not is_worth_a_name(seconds, step_s, threshold):
        return None
    num_steps = job.profile.num_steps
    spans = [p for r in job.profile.roles for p in r.phases if parent_phase(p.phase) is Phase.VALIDATE and p.origin]
    return Cause(
        kind=BottleneckKind.VALIDATION_BOUND,
        subject="validation",
        text=f"validation takes {said(seconds)} of {said(step_s)}, mean of n={num_steps} steps",
        facts=tuple(Evidence(text=f"{p.phase} {p.seconds.value:.6g} s", origin=p.origin) for p in spans[:1]),
        cost_s=seconds,
        step_s=step_s,
        note="without any validation",
    )
