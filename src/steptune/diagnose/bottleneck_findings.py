"""Causes become findings: a title that stands alone, the facts with their places, and what to do about it."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.phase import Phase, SpanKind, parent_phase
from steptune.core.profile import Origin
from steptune.diagnose.cause import Cause
from steptune.diagnose.durations import from_to
from steptune.diagnose.job import Job
from steptune.diagnose.remedies import remedies

TITLES: dict[BottleneckKind, str] = {
    BottleneckKind.ROLLOUT_BOUND: "Generation",
    BottleneckKind.TRAINER_BOUND: "Training",
    BottleneckKind.LONG_TAIL: "The long tail of completions",
    BottleneckKind.PADDING_WASTE: "Padding",
    BottleneckKind.RECOMPUTE_COST: "Recomputing activations",
    BottleneckKind.SERIALISED_SIDES: "Rollout and training taking turns",
    BottleneckKind.WEIGHT_SYNC_BOUND: "Handing over weights",
    BottleneckKind.ENVIRONMENT_BOUND: "Environment and reward",
    BottleneckKind.MODE_SWITCH: "Switching between rollout and training",
    BottleneckKind.REDUNDANT_LOGPROB: "The old-log-prob pass",
    BottleneckKind.THREAD_SPLIT: "The split of threads",
}
"""Subject of the title where a rule brings none of its own."""

PHASES: dict[BottleneckKind, tuple[Phase, ...]] = {
    BottleneckKind.ROLLOUT_BOUND: (Phase.ROLLOUT,),
    BottleneckKind.TRAINER_BOUND: (Phase.TRAIN,),
    BottleneckKind.LONG_TAIL: (Phase.ROLLOUT,),
    BottleneckKind.RECOMPUTE_COST: (Phase.TRAIN,),
    BottleneckKind.SERIALISED_SIDES: (Phase.ROLLOUT, Phase.TRAIN),
    BottleneckKind.WEIGHT_SYNC_BOUND: (Phase.WEIGHT_SYNC,),
    BottleneckKind.ENVIRONMENT_BOUND: (Phase.ENV_WAIT, Phase.REWARD),
    BottleneckKind.MODE_SWITCH: (Phase.MODE_SWITCH,),
    BottleneckKind.REDUNDANT_LOGPROB: (Phase.OLD_LOGPROB,),
}
"""Phases whose timers are the evidence of a kind."""


def bottleneck_finding(job: Job, cause: Cause) -> Finding:
    """Return the finding of one cause."""
    bottleneck = cause.bottleneck
    return Finding(
        code=bottleneck.kind.value,
        kind=FindingKind.BOTTLENECK,
        severity=Severity.WARNING,
        title=_title(bottleneck, cause.title),
        evidence=(Evidence(text=bottleneck.evidence, origin=_first_origin(job, cause)), *_facts(job, cause)),
        remedies=remedies(job, bottleneck),
        share=bottleneck.share,
        ceiling=bottleneck.ceiling,
    )


def _title(bottleneck: Bottleneck, own: str) -> str:
    share, after_s = bottleneck.share.value, bottleneck.ceiling.value
    before_s = after_s / (1 - share) if share < 1 else None
    subject = own or TITLES[bottleneck.kind]
    gain = "" if before_s is None else f": without it {from_to(before_s, after_s)}"
    return f"{subject} is {share:.0%} of the step{gain}"


def _facts(job: Job, cause: Cause) -> tuple[Evidence, ...]:
    return cause.evidence or tuple(_timers(job, PHASES.get(cause.bottleneck.kind, ())))


def _first_origin(job: Job, cause: Cause) -> Origin | None:
    return next((fact.origin for fact in _facts(job, cause) if fact.origin is not None), None)


def _timers(job: Job, phases: tuple[Phase, ...]) -> list[Evidence]:
    """The timers of these phases, each key once, work before waiting."""
    if job.profile is None:
        return []
    spans = [p for role in job.profile.roles for p in role.phases if parent_phase(p.phase) in phases]
    facts: dict[str, Evidence] = {}
    for span in sorted(spans, key=lambda p: p.kind is SpanKind.EXPOSED_WAIT):
        if span.origin is not None:
            verb = "waits" if span.kind is SpanKind.EXPOSED_WAIT else "takes"
            text = f"{span.origin.key} {span.seconds.value:.4g} s ({span.role.value} {verb})"
            facts.setdefault(span.origin.key, Evidence(text=text, origin=span.origin))
    return list(facts.values())
