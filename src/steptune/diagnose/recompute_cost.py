"""Activations are computed twice to save memory."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.curves import turned_ratio
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

RECOMPUTE_FRAC = 0.25
"""Part of a training pass that full recompute adds when no curve tells: one forward more on top of one forward
and a backward of two, 1 / (1 + 2 + 1)."""

LEVERS = ("recompute", "micro_batch_tokens")
"""Knobs that avoid it, or buy the memory that lets it go."""


def recompute_cost(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find training time spent on recompute, from the `train` curves with and without it where they exist."""
    if profile.settings.get("recompute") in (None, False, "none"):
        return None
    off_ratio = turned_ratio(profile.costs, "train", profile.settings, knob="recompute", to=False)
    frac = RECOMPUTE_FRAC if off_ratio is None else 1 - off_ratio
    train_s = cost_s(profile, Phase.TRAIN)
    source = "one extra forward of four" if off_ratio is None else "measured on the train curve"
    return found(
        BottleneckKind.RECOMPUTE_COST,
        profile,
        threshold,
        cost_s=frac * train_s,
        evidence=f"recompute is on: {frac:.0%} of {brief(train_s)} s of training ({source})",
        levers=LEVERS,
    )
