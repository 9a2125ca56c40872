"""Handing new weights to the rollout takes a visible part of the step."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

LEVERS = ("handover", "rollout_dtype")
"""Knobs that hand over fewer bytes, or by a shorter way."""


def weight_sync_bound(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find the time of the weight hand-over."""
    seconds = cost_s(profile, Phase.WEIGHT_SYNC)
    return found(
        BottleneckKind.WEIGHT_SYNC_BOUND,
        profile,
        threshold,
        cost_s=seconds,
        evidence=f"the weight hand-over takes {brief(seconds)} s of a {brief(profile.step_time.value)} s step",
        levers=LEVERS,
    )
