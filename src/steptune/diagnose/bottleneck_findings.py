"""Causes become findings: a title that stands alone, the facts with their places, and what to do about it."""

from collections.abc import Sequence
from dataclasses import replace

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.diagnose.cause import Cause
from steptune.diagnose.durations import from_to
from steptune.diagnose.job import Job
from steptune.diagnose.remedies import remedies
from steptune.diagnose.timer_gap import rollout_gap

TIME_THE_REST = Remedy(
    text="Time what lies inside this timer and outside the engine first (waking, weights, scheduling): no engine "
    "setting acts on it"
)
"""The advice where most of the rollout's timer is not generation (see `timer_gap`)."""


def bottleneck_finding(job: Job, cause: Cause, beside: Sequence[Cause] = ()) -> Finding:
    """Return the finding of one cause; share and ceiling only where the step is known.

    ``beside`` are all causes of the job: some changes make no sense next to another cause.
    """
    bottleneck = cause.bottleneck()
    gap = rollout_gap(job) if cause.kind is BottleneckKind.ROLLOUT_BOUND else None
    is_elsewhere = gap is not None and gap.is_most
    if gap is not None and is_elsewhere:
        cause = replace(cause, subject=f"the generation timer ({1 - gap.known_frac:.0%} of it outside the engine)")
    offered = remedies(job, cause.kind, bottleneck.ceiling if bottleneck else None, {other.kind for other in beside})
    return Finding(
        code=cause.kind.value,
        kind=FindingKind.BOTTLENECK,
        severity=Severity.WARNING,
        title=_title(cause),
        evidence=(Evidence(text=cause.text, origin=cause.origin()), *cause.facts),
        remedies=(TIME_THE_REST,) if is_elsewhere else offered,
        share=bottleneck.share if bottleneck else None,
        ceiling=bottleneck.ceiling if bottleneck else None,
    )


def _title(cause: Cause) -> str:
    bottleneck = cause.bottleneck()
    if bottleneck is None or cause.step_s is None:
        return f"{cause.subject[0].upper()}{cause.subject[1:]}: {cause.text.split(': ')[0]}"
    gain = from_to(cause.step_s, bottleneck.ceiling.value)
    most = "up to " if cause.is_bound else ""
    return f"{most}{bottleneck.share.value:.0%} of the step goes to {cause.subject}; if that were free, {gain}"
