"""Rollout and trainer take turns, so each stands still while the other works."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import ROLLOUT_SIDE, TRAINER_SIDE, cost_s, found

LEVERS = ("schedule", "handover", "correction", "rollout_threads", "train_threads")
"""Knobs that let the sides overlap, and those an overlap needs with it."""


def serialised_sides(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find the shorter side of a synchronous step: perfect overlap would hide it behind the longer one.

    The ceiling lets each side keep its speed, which it does only on devices of its own.
    """
    if profile.schedule != "sync":
        return None
    rollout_s, trainer_s = cost_s(profile, *ROLLOUT_SIDE), cost_s(profile, *TRAINER_SIDE)
    return found(
        BottleneckKind.SERIALISED_SIDES,
        profile,
        threshold,
        cost_s=min(rollout_s, trainer_s),
        evidence=f"rollout side {brief(rollout_s)} s and trainer side {brief(trainer_s)} s run one after the other",
        levers=LEVERS,
    )
