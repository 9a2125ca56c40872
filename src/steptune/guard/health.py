"""Health: does the run learn at all? A sick run is refused before any speed is measured.

Speeding up a run whose rewards never vary, or that has collapsed, only gets to nowhere sooner. The surprise:
an *unknown* share of mixed groups is refused too, because it is the only sign of learning there is in one step;
unknown truncation or entropy is not, as they show sickness, not health.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.errors import explain
from steptune.core.profile import Profile
from steptune.core.trial import Observation

MAX_TRUNCATED_FRAC = 0.9
"""Truncated fraction above which answers are cut rather than given (a published 90 % baseline hid this [V37])."""

MIN_ENTROPY_NAT = 0.005
"""Entropy per token below which the policy has collapsed; 0.001 was seen with exploding answers [V15]."""


def health_problem(profile: Profile, observations: Sequence[Observation] = ()) -> str | None:
    """Return why this baseline should not be tuned and what to fix first, or None for a healthy one.

    ``observations`` are the profile's steps where there are any (a pasted log has none). Raise the text as
    `HealthError`.
    """
    checks = (
        _nan_problem(profile, observations),
        _reward_problem(profile.health.mixed_groups_frac),
        _gradient_problem(observations),
        _still_problem(observations),
        _arrival_problem(observations),
        _truncation_problem(profile.health.truncated_frac),
        _entropy_problem(profile.health.entropy, observations),
    )
    return next((problem for problem in checks if problem is not None), None)


def _nan_problem(profile: Profile, observations: Sequence[Observation]) -> str | None:
    health = profile.health
    stated = (health.reward_mean, health.mixed_groups_frac, health.truncated_frac, health.entropy)
    seen = [value for step in observations for value in (step.loss, step.grad_norm, step.reward_mean, step.entropy)]
    num_broken = sum(value is not None and not math.isfinite(value) for value in (*stated, *seen))
    if not health.has_nan and num_broken == 0:
        return None
    return explain(
        "the baseline produces NaN or infinity",
        got=f"{num_broken} broken metrics",
        allowed="none",
        hint="lower the learning rate or clip gradients until the run is finite, then tune it",
    )


def _reward_problem(mixed_groups_frac: float | None) -> str | None:
    if mixed_groups_frac is None:
        return explain(
            "it is not known whether rewards vary inside a group",
            got="no share of mixed groups",
            allowed="a share above 0",
            hint="log rewards per rollout: a run in which they never vary cannot learn",
        )
    if mixed_groups_frac > 0:
        return None
    return explain(
        "the reward never varies inside a group, so the run cannot learn",
        got=f"{mixed_groups_frac:g} mixed groups",
        allowed="a share above 0",
        hint="fix the verifier, or use problems that are sometimes solved and sometimes not",
    )


def _gradient_problem(observations: Sequence[Observation]) -> str | None:
    """Rewards that vary and updates that are nothing: what was learnt is lost between the two."""
    norms = [step.grad_norm for step in observations]
    if not norms or any(norm is None or norm > 0 for norm in norms):
        return None
    return explain(
        "rewards vary, but no update has a gradient, so the run cannot learn",
        got=f"a gradient norm of 0 in {len(norms)} of {len(norms)} steps",
        allowed="a norm above 0",
        hint="look for a loss mask or a correction that leaves no token, or for advantages that are all 0",
    )


def _still_problem(observations: Sequence[Observation]) -> str | None:
    """Gradients, and weights whose bits are the same at every hand-over: what was learnt is lost in the optimizer."""
    moved = [arrival.num_moved for step in observations for arrival in step.arrivals if arrival.num_moved is not None]
    if not moved or any(moved):
        return None
    return explain(
        "updates have a gradient, but no weight ever moves, so the run cannot learn",
        got=f"0 tensors changed over {len(moved)} hand-overs",
        allowed="weights that change",
        hint="look for a learning rate of 0 or too small for the weights' number format, or an optimizer nobody steps",
    )


def _arrival_problem(observations: Sequence[Observation]) -> str | None:
    arrivals = [arrival for step in observations for arrival in step.arrivals]
    num_wrong = sum(1 for arrival in arrivals if arrival.num_wrong or arrival.version != arrival.trainer_version)
    if not num_wrong:
        return None
    return explain(
        "the baseline's rollout does not hold the trainer's weights",
        got=f"other tensors or another version after {num_wrong} of {len(arrivals)} hand-overs",
        allowed="every tensor of the trainer's version",
        hint="mend the hand-over first: a faster step only samples from the wrong policy sooner",
    )


def _truncation_problem(truncated_frac: float | None) -> str | None:
    if truncated_frac is None or truncated_frac <= MAX_TRUNCATED_FRAC:
        return None
    return explain(
        "nearly every answer hits the length limit",
        got=f"{truncated_frac:.0%} truncated",
        allowed=f"at most {MAX_TRUNCATED_FRAC:.0%}",
        hint="raise the length limit or start from a checkpoint that ends its answers",
    )


def _entropy_problem(stated: float | None, observations: Sequence[Observation]) -> str | None:
    late = [step.entropy for step in observations[len(observations) // 2 :] if step.entropy is not None]
    levels = [*([] if stated is None else [stated]), *([statistics.median(late)] if late else [])]
    if not levels or min(levels) >= MIN_ENTROPY_NAT:
        return None
    return explain(
        "the policy has collapsed: it has nearly no entropy left",
        got=f"{min(levels):.2g} nat per token",
        allowed=f"{MIN_ENTROPY_NAT} or more",
        hint="lower the learning rate, raise clip_high or the temperature, and restart before the collapse",
    )
