"""Observations of one configuration become a Profile. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from steptune.core.ages import mean_age
from steptune.core.estimate import Estimate, Source
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue, num_replicas
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import (
    CostCurve,
    GapStats,
    Health,
    LagStats,
    NoiseFloor,
    PhaseTime,
    Profile,
    RoleProfile,
    SampledLengths,
    WorkSignature,
)
from steptune.core.trial import Observation
from steptune.stats.intervals import mean_estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileInputs:
    """Everything a profile is made of, warm-up already dropped."""

    framework: str
    version: str
    settings: dict[str, KnobValue]
    kept: tuple[Observation, ...]
    """Steps that count."""
    also_seen: tuple[Observation, ...] = ()
    """Steps of the same configuration that count for the peak of memory alone: those of a run that evaluated, too."""
    num_warmup: int
    lengths: SampledLengths
    health: Health
    noise: NoiseFloor | None
    costs: tuple[CostCurve, ...]
    load_avg: float | None


def profile_of(job: JobSpec, inputs: ProfileInputs) -> Profile:
    """Return the profile of the kept steps.

    Raises:
        ValueError: no step was kept.
    """
    kept = inputs.kept
    if not kept:
        raise ValueError("a profile needs at least one kept step")
    tokens = [o.prompt_tokens + o.completion_tokens for o in kept]
    device_s = sum(o.step_time_s for o in kept) * job.devices.num_cores
    is_async = inputs.settings.get("schedule", "sync") != "sync"
    return Profile(
        framework=inputs.framework,
        framework_version=inputs.version,
        schedule="async" if is_async else "sync",
        placement="disaggregated" if is_async else "colocated",
        settings=inputs.settings,
        work=work_signature(job),
        step_time=mean_estimate([o.step_time_s for o in kept], "s"),
        roles=tuple(_role(role, kept, job, num_replicas(inputs.settings)) for role in _roles(kept)),
        lengths=inputs.lengths,
        tokens_per_step=mean_estimate(tokens, "token"),
        tokens_per_device_s=Estimate(
            value=sum(tokens) / device_s, unit="token/core-s", source=Source.DERIVED, n=len(kept)
        ),
        mismatch=median_gap([o.mismatch for o in kept]),
        off_policy=_lags(kept),
        staleness_mean=_staleness(kept, job.algorithm.num_updates),
        health=inputs.health,
        memory_peak_bytes=_peak((*kept, *inputs.also_seen)),
        noise=inputs.noise,
        costs=inputs.costs,
        num_steps=len(kept),
        num_warmup=inputs.num_warmup,
        load_avg=inputs.load_avg,
    )


def _staleness(kept: Sequence[Observation], num_updates: int) -> float | None:
    """Return the mean age of trained tokens; rounding of a mean of nothing older is 0 and not below."""
    age = mean_age(kept, num_updates=num_updates)
    return None if age is None else age if math.isnan(age) else max(0.0, age)


def health_of(steps: Sequence[Observation]) -> Health:
    """Return the signs of life of naturally run steps."""
    losses = [o.loss for o in steps] + [o.grad_norm for o in steps] + [o.reward_mean for o in steps]
    return Health(
        reward_mean=_mean_or_none([o.reward_mean for o in steps]),
        mixed_groups_frac=_mean_or_none([o.mixed_groups_frac for o in steps]),
        truncated_frac=_mean_or_none([o.truncated_frac for o in steps]),
        entropy=_mean_or_none([o.entropy for o in steps]),
        has_nan=any(value is not None and not math.isfinite(value) for value in losses),
    )


def work_signature(job: JobSpec) -> WorkSignature:
    """Return the declared work of one step of the job."""
    algorithm = job.algorithm
    return WorkSignature(
        prompts_per_step=algorithm.prompts_per_step,
        group_size=algorithm.group_size,
        max_completion_len=algorithm.max_completion_len,
        num_updates=algorithm.num_updates,
    )


def median_gap(gaps: Sequence[GapStats | None]) -> GapStats | None:
    """Return the field-wise median over steps (largest for `max_abs`), None when no step measured it.

    A field that is NaN in one step is NaN here: neither a median nor a maximum would keep it.
    """
    known = [gap for gap in gaps if gap is not None]
    if not known:
        return None

    def mid(field: Callable[[GapStats], float]) -> float:
        values = [field(gap) for gap in known]
        return math.nan if any(map(math.isnan, values)) else median(values)

    return GapStats(
        k1=mid(lambda g: g.k1),
        k3=mid(lambda g: g.k3),
        mean_abs=mid(lambda g: g.mean_abs),
        max_abs=math.nan if any(math.isnan(g.max_abs) for g in known) else max(g.max_abs for g in known),
        mult_prob_error=mid(lambda g: g.mult_prob_error),
        ess_frac=mid(lambda g: g.ess_frac),
        num_tokens=sum(g.num_tokens for g in known),
    )


def _roles(kept: Sequence[Observation]) -> list[Role]:
    return [role for role in Role if role in kept[0].wall_by_role_s]


def _role(role: Role, kept: Sequence[Observation], job: JobSpec, num_rollouts: int) -> RoleProfile:
    keys = sorted({(s.phase, s.kind) for o in kept for s in o.spans if s.role == role})
    phases = tuple(
        PhaseTime(
            role=role,
            phase=phase,
            kind=SpanKind(kind),
            seconds=mean_estimate([_seconds(o, role, phase, kind) for o in kept], "s"),
        )
        for phase, kind in keys
    )
    return RoleProfile(
        role=role,
        num_replicas=num_rollouts if role is Role.ROLLOUT else 1,
        num_devices=float(job.devices.num_cores),
        wall_s=fmean(o.wall_by_role_s[role] for o in kept),
        phases=phases,
    )


def _seconds(observation: Observation, role: str, phase: str, kind: str) -> float:
    return sum(s.seconds for s in observation.spans if (s.role, s.phase, s.kind) == (role, phase, kind))


def _lags(kept: Sequence[Observation]) -> tuple[LagStats, ...]:
    lags = sorted({stats.lag for o in kept for stats in o.off_policy})
    found: list[LagStats] = []
    for lag in lags:
        gap = median_gap([stats.gap for o in kept for stats in o.off_policy if stats.lag == lag])
        if gap is not None:
            found.append(LagStats(lag=lag, gap=gap))
    return tuple(found)


def _peak(kept: Sequence[Observation]) -> Estimate | None:
    peaks = [o.memory_peak_bytes for o in kept if o.memory_peak_bytes is not None]
    return Estimate(value=max(peaks), unit="bytes", source=Source.MEASURED, n=len(peaks)) if peaks else None


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
