"""Training is what the step waits for."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase, Role
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import busy_s, cost_s, found, wait_s

BOUND_FRAC = 0.4
"""Part of a synchronous step from which training is called its bound. Prior, to be replaced by bench."""

LEVERS = ("layout", "micro_batch_tokens", "recompute", "train_dtype", "train_threads")
"""Knobs that shorten training."""


def trainer_bound(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find a step bound by training.

    Synchronous: training is a large part of the step. Asynchronous: the trainer hardly waits, and less than
    the rollout does; the step cannot fall below the rollout's own busy time, where that is known.
    """
    step_s = profile.step_time.value
    train_s = cost_s(profile, Phase.TRAIN)
    evidence = f"training takes {brief(train_s)} s of a {brief(step_s)} s step ({train_s / step_s:.0%})"
    if profile.schedule == "async":
        starved_s = wait_s(profile, Role.TRAINER, Phase.ROLLOUT)
        full_s = wait_s(profile, Role.ROLLOUT, Phase.TRAIN, Phase.WEIGHT_SYNC)
        if starved_s >= max(threshold * step_s, full_s):
            return None
        evidence = f"{evidence}, and the trainer waits only {brief(starved_s)} s for samples"
        train_s = min(train_s, step_s - busy_s(profile, Phase.ROLLOUT))
    return found(
        BottleneckKind.TRAINER_BOUND,
        profile,
        threshold if profile.schedule == "async" else max(threshold, BOUND_FRAC),
        cost_s=train_s,
        evidence=evidence,
        levers=LEVERS,
    )
