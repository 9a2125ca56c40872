"""The backward pass is far slower than its forward pass explains.

The old-log-prob pass is one forward over the same tokens on the same devices. With recompute, training is two
forwards and a backward of two: 4 forwards. Public logs lie between 2.3 and 6.5; one job of 40 had an expert loop
that ran one expert at a time (verl #3727).
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import busy_s
from steptune.diagnose.job import Job

NORMAL_RATIO_MIN = 2.3
"""Smallest update / old-log-prob ratio of the public logs in the needs study (section 1)."""

NORMAL_RATIO_MAX = 6.5
"""Largest one."""

PATHOLOGICAL_RATIO = 2 * NORMAL_RATIO_MAX
"""Ratio from which it is called slow: twice the largest seen elsewhere, so that offload alone does not fire. Prior."""


def update_ratio(profile: Profile, epochs: float = 1.0) -> float | None:
    """Return seconds of one training epoch / seconds of the old-log-prob pass; None where one of them is unknown.

    In a synchronous job only: elsewhere the two timers do not cover the same batch.
    """
    update_s, logprob_s = busy_s(profile, Phase.TRAIN), busy_s(profile, Phase.OLD_LOGPROB)
    if profile.schedule != "sync" or not (update_s > 0 and logprob_s > 0):
        return None
    return update_s / epochs / logprob_s


def backward_slow(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find training time beyond the largest normal multiple of the old-log-prob pass."""
    epochs = job.positive("update_epochs") or 1.0
    ratio = update_ratio(job.profile, epochs) if job.profile else None
    if job.profile is None or step_s is None or ratio is None or not ratio >= PATHOLOGICAL_RATIO:
        return None
    update_s, logprob_s = busy_s(job.profile, Phase.TRAIN), busy_s(job.profile, Phase.OLD_LOGPROB)
    excess_s = update_s - NORMAL_RATIO_MAX * epochs * logprob_s
    if not is_worth_a_name(excess_s, step_s, threshold):
        return None
    text = (
        f"the update takes {said(update_s)}, {ratio:.0f}x the {said(logprob_s)} of the old log-probs; "
        f"other public jobs show {NORMAL_RATIO_MIN:g}-{NORMAL_RATIO_MAX:g}x"
    )
    return Cause(
        kind=BottleneckKind.BACKWARD_SLOW,
        subject="a pathologically slow backward pass",
        text=text,
        facts=_places(job.profile),
        cost_s=excess_s,
        step_s=step_s,
        note=f"with the update at {NORMAL_RATIO_MAX:g}x the old-log-prob pass",
    )


def _places(profile: Profile) -> tuple[Evidence, ...]:
    wanted = (Phase.TRAIN.value, Phase.OLD_LOGPROB.value)
    spans = [p for r in profile.roles for p in r.phases if p.phase in wanted]
    keyed = {p.origin.key: p for p in spans if p.origin is not None}
    return tuple(Evidence(text=f"{key} {p.seconds.value:.6g} s", origin=p.origin) for key, p in keyed.items())
