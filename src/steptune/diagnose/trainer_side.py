"""No single phase leads, and the trainer's passes together are the longer side of the step.

The surprise: two sides that share a step are not "serialised" before they are anything else. Which of them is longer
is what decides where to begin, and the log-prob passes belong to the trainer.
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase, SpanKind
from steptune.core.profile import Profile
from steptune.diagnose.cause import Cause
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import ROLLOUT_SIDE, TRAINER_SIDE, busy_s, cost_s
from steptune.diagnose.job import Job
from steptune.diagnose.trainer_bound import BOUND_FRAC, LEVERS

MAX_UNTIMED_FRAC = 0.2
"""Part of the step outside both sides, above which neither is called the longer: the rest may be of either. Prior."""


def trainer_side(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find a trainer side that is longer than the rollout side though training alone is not."""
    profile = job.profile
    if profile is None or step_s is None or profile.schedule != "sync":
        return None
    trainer_s, rollout_s = busy_s(profile, *TRAINER_SIDE), cost_s(profile, *ROLLOUT_SIDE)
    leads_alone = cost_s(profile, Phase.TRAIN) >= max(rollout_s, BOUND_FRAC * step_s)
    if leads_alone or not rollout_s < trainer_s <= step_s or trainer_s < BOUND_FRAC * step_s:
        return None
    if step_s - trainer_s - rollout_s > MAX_UNTIMED_FRAC * step_s:
        return None
    parts = _timers(profile)
    named = ", ".join(f"{fact.origin.key.rsplit('/', 1)[-1]}" for fact in parts if fact.origin is not None)
    return Cause(
        kind=BottleneckKind.TRAINER_BOUND,
        subject=f"the trainer side ({named})" if named else "the trainer side",
        text=f"the trainer side takes {brief(trainer_s)} s of a {brief(step_s)} s step ({trainer_s / step_s:.0%}), "
        f"the rollout side {brief(rollout_s)} s ({rollout_s / step_s:.0%})",
        facts=parts,
        cost_s=trainer_s,
        step_s=step_s,
        levers=LEVERS,
    )


def _timers(profile: Profile) -> tuple[Evidence, ...]:
    """The trainer side's timers, each key once, longest first."""
    phases = tuple(phase.value for phase in TRAINER_SIDE)
    spans = [p for r in profile.roles for p in r.phases if p.phase in phases and p.kind is SpanKind.BUSY]
    facts: dict[str, Evidence] = {}
    for span in sorted(spans, key=lambda p: -p.seconds.value):
        if span.origin is not None and span.seconds.value > 0:
            text = f"{span.origin.key} {span.seconds.value:.6g} s"
            facts.setdefault(span.origin.key, Evidence(text=text, origin=span.origin))
    return tuple(facts.values())[:3]
