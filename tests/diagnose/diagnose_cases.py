"""Small profiles for the rules: a synchronous step of 1 s, an asynchronous one of 10 s."""

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import (
    CostCurve,
    CurvePoint,
    NoiseFloor,
    PhaseTime,
    Profile,
    RoleProfile,
    WorkSignature,
)
from steptune.core.work import PlannedWork


def measured(value: float, unit: str = "s") -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.MEASURED)


def role(name: Role, wall_s: float, busy: dict[str, float], wait: dict[str, float] | None = None) -> RoleProfile:
    books = [(SpanKind.BUSY, busy), (SpanKind.EXPOSED_WAIT, wait or {})]
    phases = tuple(
        PhaseTime(role=name, phase=phase, kind=kind, seconds=measured(s))
        for kind, book in books
        for phase, s in book.items()
    )
    return RoleProfile(role=name, wall_s=wall_s, phases=phases)


def sync(busy: dict[str, float], *, step_s: float = 1.0, **changes: object) -> Profile:
    """Return a synchronous profile; rollout phases are booked on the rollout and, as a wait, on the trainer."""
    produced = {phase: s for phase, s in busy.items() if phase.split("/")[0] in ("rollout", "env_wait", "reward")}
    consumed = {phase: s for phase, s in busy.items() if phase not in produced}
    made = Profile(
        framework="fake",
        step_time=measured(step_s),
        roles=(
            role(Role.ROLLOUT, step_s, produced, consumed),
            role(Role.TRAINER, step_s, consumed, produced),
        ),
        noise=noise_floor(),
        num_steps=8,
    )
    return made.model_copy(update=changes)


def asynchronous(
    *,
    trainer_busy: dict[str, float],
    trainer_wait: dict[str, float] | None = None,
    rollout: RoleProfile | None = None,
    step_s: float = 10.0,
) -> Profile:
    """Return an asynchronous profile as a pasted log gives it: no noise, no curves, often the trainer alone."""
    trainer = role(Role.TRAINER, step_s, trainer_busy, trainer_wait)
    return Profile(
        framework="pasted",
        schedule="async",
        step_time=measured(step_s),
        roles=(trainer, rollout) if rollout else (trainer,),
        num_steps=1,
    )


def noise_floor(within: float = 0.005, between: float = 0.005) -> NoiseFloor:
    return NoiseFloor(within_launch_cv=within, between_launch_frac=between, aa_ratio=measured(1.0, "x"), num_steps=16)


def curve(name: str, *points: tuple[float, float], **when: object) -> CostCurve:
    return CostCurve(name=name, when=dict(when), unit="x", points=tuple(CurvePoint(x=x, seconds=s) for x, s in points))


def padded_plan(padded: float, active: float) -> PlannedWork:
    return PlannedWork(
        items=(),
        schedule="sync",
        lag=0,
        trainer_cores=2,
        rollout_cores=2,
        memory_bytes=0,
        padded_tokens=padded,
        active_tokens=active,
    )


ONE_UPDATE = WorkSignature(num_updates=1)
TWO_UPDATES = WorkSignature(num_updates=2)
