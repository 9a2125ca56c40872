"""The backward pass is far slower than its forward pass explains.

The old-log-prob pass is one forward over the same tokens on the same devices. With recompute, training is two
forwards and a backward of two: 4 forwards. Public logs lie between 2.3 and 6.5; one job of 40 had an expert loop
that ran one expert at a time (verl #3727).
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.diagnose.cause import Cause, cost_bottleneck
from steptune.diagnose.durations import said
from steptune.diagnose.facts import busy_s
from steptune.diagnose.job import Job, num_updates

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


def backward_slow(job: Job, step_s: float, threshold: float) -> Cause | None:
    """Find training time beyond the largest normal multiple of the old-log-prob pass."""
    if job.profile is None or step_s <= 0:
        return None
    epochs = num_updates(job) or 1.0
    ratio = update_ratio(job.profile, epochs)
    if ratio is None or not ratio >= PATHOLOGICAL_RATIO:
        return None
    update_s, logprob_s = busy_s(job.profile, Phase.TRAIN), busy_s(job.profile, Phase.OLD_LOGPROB)
    excess_s = update_s - NORMAL_RATIO_MAX * epochs * logprob_s
    if not excess_s >= threshold * step_s:
        return None
    text = (
        f"the update takes {said(update_s)}, {ratio:.0f}x the {said(logprob_s)} of the old log-probs; "
        f"other public jobs show {NORMAL_RATIO_MIN:g}-{NORMAL_RATIO_MAX:g}x"
    )
    bottleneck = cost_bottleneck(
        BottleneckKind.BACKWARD_SLOW,
        step_s=step_s,
        cost_s=excess_s,
        evidence=text,
        note=f"ceiling at {NORMAL_RATIO_MAX:g}x the old-log-prob pass",
    )
    return Cause(bottleneck=bottleneck, title="Backward is pathologically slow", evidence=_places(job.profile))


def _places(profile: Profile) -> tuple[Evidence, ...]:
    wanted = (Phase.TRAIN.value, Phase.OLD_LOGPROB.value)
    phases = [p for r in profile.roles for p in r.phases if p.phase in wanted and p.origin is not None]
    origins = {p.origin.key: p for p in phases if p.origin is not None}
    return tuple(Evidence(text=f"{key} {p.seconds.value:.4g} s", origin=p.origin) for key, p in origins.items())
