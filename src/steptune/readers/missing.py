"""What a log did not say, by canonical name, so that nobody takes silence for zero."""

from steptune.core.phase import Phase, Role
from steptune.core.profile import Profile, SummaryLengths

_PHASES_LOOKED_FOR = (
    Phase.ROLLOUT,
    Phase.ENV_WAIT,
    Phase.REWARD,
    Phase.OLD_LOGPROB,
    Phase.REF_LOGPROB,
    Phase.ADVANTAGE,
    Phase.TRAIN,
    Phase.WEIGHT_SYNC,
    Phase.MODE_SWITCH,
)
"""Phases of nearly every job: without a timer their time hides in another phase or in the unattributed rest."""


def with_missing(profile: Profile) -> Profile:
    """Return ``profile`` with `missing` filled from what is None or absent in it."""
    names = [*_missing_fields(profile), *_missing_roles(profile), *_missing_phases(profile)]
    return profile.model_copy(update={"missing": tuple(names)})


def _missing_fields(profile: Profile) -> list[str]:
    assert isinstance(profile.lengths, SummaryLengths), "a log gives no sample lengths"
    stated = {
        "framework_version": profile.framework_version,
        "placement": profile.placement,
        "work.prompts_per_step": profile.work.prompts_per_step,
        "work.group_size": profile.work.group_size,
        "work.max_completion_len": profile.work.max_completion_len,
        "work.num_updates": profile.work.num_updates,
        "lengths.prompt_mean": profile.lengths.prompt_mean,
        "lengths.completion_mean": profile.lengths.completion_mean,
        "lengths.completion_max": profile.lengths.completion_max,
        "lengths.clipped_frac": profile.lengths.clipped_frac,
        "tokens_per_step": profile.tokens_per_step,
        "tokens_per_device_s": profile.tokens_per_device_s,
        "mismatch": profile.mismatch,
        "health.reward_mean": profile.health.reward_mean,
        "health.entropy": profile.health.entropy,
        "memory_peak_bytes": profile.memory_peak_bytes,
        "noise": profile.noise,
    }
    if profile.schedule == "async":
        stated["staleness_mean"] = profile.staleness_mean
    return [name for name, value in stated.items() if value is None]


def _missing_roles(profile: Profile) -> list[str]:
    names = [role.value for role in (Role.ROLLOUT, Role.ENVIRONMENT) if profile.role(role) is None]
    for role in profile.roles:
        if role.role is Role.CONTROLLER:
            continue
        if role.num_devices is None:
            names.append(f"{role.role}.num_devices")
        if role.num_replicas is None:
            names.append(f"{role.role}.num_replicas")
    return names


def _missing_phases(profile: Profile) -> list[str]:
    seen = {phase.phase for role in profile.roles for phase in role.phases}
    return [f"phase.{phase}" for phase in _PHASES_LOOKED_FOR if phase not in seen]
