"""A shared device is switched between rollout and training (wake, sleep, reload, reshard)."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

LEVERS = ("schedule",)
"""Knobs that give each side a place of its own."""


def mode_switch(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find the time of switching modes."""
    seconds = cost_s(profile, Phase.MODE_SWITCH)
    return found(
        BottleneckKind.MODE_SWITCH,
        profile,
        threshold,
        cost_s=seconds,
        evidence=f"switching between the sides takes {brief(seconds)} s of a {brief(profile.step_time.value)} s step",
        levers=LEVERS,
    )
