"""Environments, tools or verifiers hold the step up, not the model."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

LEVERS = ("schedule",)
"""Knobs that hide it. Shortening it is the environment's business, which is declared work."""


def environment_bound(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find the time of environment waits and rewards."""
    step_s = profile.step_time.value
    env_s, reward_s = cost_s(profile, Phase.ENV_WAIT), cost_s(profile, Phase.REWARD)
    return found(
        BottleneckKind.ENVIRONMENT_BOUND,
        profile,
        threshold,
        cost_s=env_s + reward_s,
        evidence=f"environment {brief(env_s)} s and reward {brief(reward_s)} s of a {brief(step_s)} s step",
        levers=LEVERS,
    )
