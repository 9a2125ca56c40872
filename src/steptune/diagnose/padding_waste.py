"""The trainer computes positions that hold no token."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

LEVERS = ("layout", "micro_batch_tokens")
"""Knobs that remove padding."""


def padding_waste(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find training time spent on padding, taking time as proportional to positions."""
    if planned is None or not planned.padded_tokens > 0:
        return None
    waste_frac = 1 - planned.active_tokens / planned.padded_tokens
    padded, train_s = planned.padded_tokens, cost_s(profile, Phase.TRAIN)
    return found(
        BottleneckKind.PADDING_WASTE,
        profile,
        threshold,
        cost_s=waste_frac * train_s,
        evidence=f"{waste_frac:.0%} of {padded:.0f} positions are padding ({brief(train_s)} s of training)",
        levers=LEVERS,
    )
