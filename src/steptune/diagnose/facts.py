"""What the rules read off a profile, so that each of them says in a line what it compares.

Surprise: in a synchronous profile one second can stand twice, as the rollout's busy time and as the trainer's
wait for it. `cost_s` therefore takes the larger of the two books, never their sum. In an asynchronous one
only what holds the trainer up costs anything: work of the rollout side that nobody waits for is free.
"""

import math

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Phase, Role, SpanKind, parent_phase
from steptune.core.profile import Profile, RoleProfile

MIN_SHARE_FRAC = 0.02
"""Part of a step below which a cause is not worth a name. Prior, to be replaced by bench."""

UNKNOWN_NOISE_SHARE_FRAC = 0.1
"""The same where no noise floor was measured (a pasted log): twice the 5 % by which six near-identical public runs
spread (needs study, S08)."""

ROLLOUT_SIDE = (Phase.ROLLOUT, Phase.ENV_WAIT, Phase.REWARD)
"""Phases that produce the batch."""

TRAINER_SIDE = (Phase.REF_LOGPROB, Phase.OLD_LOGPROB, Phase.ADVANTAGE, Phase.TRAIN)
"""Phases that consume it."""


def share_threshold(profile: Profile) -> float:
    """Return the part of the step a cause must reach: twice the A/A noise, and never below MIN_SHARE_FRAC."""
    if profile.noise is None:
        return UNKNOWN_NOISE_SHARE_FRAC
    noise = max(profile.noise.within_launch_cv, profile.noise.between_launch_frac)
    return max(MIN_SHARE_FRAC, 2 * noise) if math.isfinite(noise) else UNKNOWN_NOISE_SHARE_FRAC


def busy_s(profile: Profile, *phases: Phase) -> float:
    """Return busy seconds per step in these phases, all roles together."""
    return math.fsum(_booked_s(role, phase, SpanKind.BUSY) for role in profile.roles for phase in phases)


def wait_s(profile: Profile, role: Role, *phases: Phase) -> float:
    """Return the seconds per step that ``role`` stands waiting for these phases."""
    held = profile.role(role)
    return math.fsum(_booked_s(held, phase, SpanKind.EXPOSED_WAIT) for phase in phases) if held else 0.0


def cost_s(profile: Profile, *phases: Phase) -> float:
    """Return what these phases add to the step, in seconds.

    Synchronous: the larger of all roles' busy time and any role's wait for it. Asynchronous: the trainer's
    own busy time and its waits.
    """
    if profile.schedule == "async":
        trainer = profile.role(Role.TRAINER)
        own_s = math.fsum(_booked_s(trainer, phase, SpanKind.BUSY) for phase in phases) if trainer else 0.0
        return own_s + wait_s(profile, Role.TRAINER, *phases)
    waits = [wait_s(profile, role.role, *phases) for role in profile.roles]
    return max([busy_s(profile, *phases), *waits])


def found(
    kind: BottleneckKind,
    profile: Profile,
    threshold: float,
    *,
    cost_s: float,
    evidence: str,
    levers: tuple[str, ...],
) -> Bottleneck | None:
    """Return the bottleneck that ``cost_s`` seconds of the step make, or None below the threshold (NaN included)."""
    step_s = profile.step_time.value
    if not threshold * step_s <= cost_s < math.inf:
        return None
    cost_s = min(cost_s, step_s)
    return Bottleneck(
        kind=kind,
        share=Estimate(value=cost_s / step_s, unit="frac", source=Source.DERIVED),
        ceiling=Estimate(value=step_s - cost_s, unit="s", source=Source.DERIVED),
        evidence=evidence,
        levers=levers,
    )


def _booked_s(role: RoleProfile, phase: Phase, kind: SpanKind) -> float:
    spans = [p for p in role.phases if p.kind is kind and parent_phase(p.phase) is phase]
    top = [p for p in spans if p.phase == phase.value] or spans
    return math.fsum(p.seconds.value for p in top)
