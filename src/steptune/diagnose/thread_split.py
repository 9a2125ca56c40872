"""Both sides use all cores in turn, though each would be nearly as fast on half of them.

The cost curves say how much slower a side gets on half its threads. Where the two slowed-down sides, run
side by side, beat the two fast ones run in turn, the cores should be split.
"""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.curves import turned_ratio
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import ROLLOUT_SIDE, TRAINER_SIDE, cost_s, found

MAIN_PRIMITIVE = {"rollout_threads": "decode", "train_threads": "train"}
"""The curve that decides a side's speed; the others are too small a part of it to vote."""

LEVERS = ("rollout_threads", "train_threads", "schedule")
"""Knobs that split the cores and let both sides use their part at once."""


def thread_split(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find what a split of the cores would save, each side at its own measured cost on half the threads."""
    rollout_ratio, train_ratio = (_halved_ratio(profile, knob) for knob in MAIN_PRIMITIVE)
    if profile.schedule != "sync" or rollout_ratio is None or train_ratio is None:
        return None
    rollout_s, trainer_s = cost_s(profile, *ROLLOUT_SIDE), cost_s(profile, *TRAINER_SIDE)
    split_s = max(rollout_s * rollout_ratio, trainer_s * train_ratio)
    return found(
        BottleneckKind.THREAD_SPLIT,
        profile,
        threshold,
        cost_s=rollout_s + trainer_s - split_s,
        evidence=f"on half the threads rollout takes {rollout_ratio:.2f}x and training {train_ratio:.2f}x as long: "
        f"side by side {brief(split_s)} s instead of {brief(rollout_s + trainer_s)} s in turn",
        levers=LEVERS,
    )


def _halved_ratio(profile: Profile, knob: str) -> float | None:
    """Return the side's seconds on half its threads / as set now; None if it has one thread or nothing was measured."""
    threads = profile.settings.get(knob)
    if not isinstance(threads, int) or threads < 2:
        return None
    return turned_ratio(profile.costs, MAIN_PRIMITIVE[knob], profile.settings, knob=knob, to=threads // 2)
