"""Generation is what the step waits for."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase, Role
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found, wait_s

BOUND_FRAC = 0.4
"""Part of a synchronous step from which one phase is called its bound: near enough half that treating it pays.
Prior, to be replaced by bench."""

LEVERS = ("rollout_concurrency", "share_prefill", "compact_finished", "rollout_dtype", "rollout_threads")
"""Knobs that shorten generation."""


def rollout_bound(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find a step bound by generation.

    Synchronous: generation is a large part of the step. Asynchronous: the trainer waits for samples, more
    than the rollout waits for it; the wait is all that a faster rollout can win back.
    """
    step_s = profile.step_time.value
    if profile.schedule == "async":
        starved_s = wait_s(profile, Role.TRAINER, Phase.ROLLOUT)
        if not starved_s > wait_s(profile, Role.ROLLOUT, Phase.TRAIN, Phase.WEIGHT_SYNC):
            return None
        evidence = (
            f"the trainer waits {brief(starved_s)} s of a {brief(step_s)} s step for samples: rollout is too slow"
        )
        return found(
            BottleneckKind.ROLLOUT_BOUND, profile, threshold, cost_s=starved_s, evidence=evidence, levers=LEVERS
        )
    rollout_s = cost_s(profile, Phase.ROLLOUT)
    return found(
        BottleneckKind.ROLLOUT_BOUND,
        profile,
        max(threshold, BOUND_FRAC),
        cost_s=rollout_s,
        evidence=f"generation takes {brief(rollout_s)} s of a {brief(step_s)} s step ({rollout_s / step_s:.0%})",
        levers=LEVERS,
    )
