"""Small pastes for the rules: settings, series and a mean step, as readers give them."""

from diagnose_cases import measured

from steptune.core.paste import DeviceClaim, Excerpt, ExcerptKind, Paste, Series, SeriesPoint, Setting, ValueStatus
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import Origin, PhaseTime, Profile, RoleProfile, SummaryLengths, WorkSignature


def origin(key: str = "", line: int = 1) -> Origin:
    return Origin(path="run.log", line=line, key=key)


def settings(**values: object) -> tuple[Setting, ...]:
    """Return overrides; ``__`` in a name stands for a dot."""
    return tuple(setting(key.replace("__", "."), value) for key, value in values.items())


def setting(key: str, value: object, layer: str = "override", *, is_resolved: bool = True) -> Setting:
    return Setting.model_validate(
        {
            "key": key,
            "value": value,
            "text": str(value),
            "layer": layer,
            "origin": origin(key),
            "is_resolved": is_resolved,
        }
    )


def series(name: str, *values: float, key: str = "", first_step: int | None = 1, **status: ValueStatus) -> Series:
    points = tuple(
        SeriesPoint(
            step=None if first_step is None else first_step + i,
            value=value,
            line=10 + i,
            status=status.get("status", ValueStatus.MEASURED),
        )
        for i, value in enumerate(values)
    )
    return Series(name=name, key=key or name, points=points, path="run.log")


def excerpt(text: str, kind: ExcerptKind = ExcerptKind.EVENT) -> Excerpt:
    return Excerpt(kind=kind, text=text, origin=origin())


def step(
    busy: dict[str, float],
    *,
    step_s: float | None = None,
    num_steps: int = 10,
    schedule: str = "sync",
    **changes: object,
) -> Profile:
    """Return a mean step as a verl log gives it: rollout phases on the rollout, the others on the trainer."""
    total_s = sum(s for phase, s in busy.items() if "/" not in phase) if step_s is None else step_s
    produced = ("rollout", "env_wait", "reward")
    rollout = {phase: s for phase, s in busy.items() if phase.split("/")[0] in produced}
    trainer = {phase: s for phase, s in busy.items() if phase not in rollout}
    made = Profile.model_validate(
        {
            "framework": "verl",
            "schedule": schedule,
            "step_time": measured(total_s),
            "roles": (
                role(Role.ROLLOUT, total_s, rollout, trainer),
                role(Role.TRAINER, total_s, trainer, rollout),
            ),
            "num_steps": num_steps,
        }
    )
    return made.model_copy(update=changes)


def role(name: Role, wall_s: float, busy: dict[str, float], wait: dict[str, float] | None = None) -> RoleProfile:
    books = [(SpanKind.BUSY, busy), (SpanKind.EXPOSED_WAIT, wait or {})]
    phases = tuple(
        PhaseTime(role=name, phase=phase, kind=kind, seconds=measured(s), origin=origin(f"timing_s/{phase}"))
        for kind, book in books
        for phase, s in book.items()
    )
    return RoleProfile(role=name, wall_s=wall_s, phases=phases)


def paste(profile: Profile | None = None, **fields: object) -> Paste:
    filled = {"paths": ("run.log",), "framework": "verl", "profile": profile, "num_steps_seen": 10} | fields
    return Paste.model_validate(filled)


def gpus(name: str | None = None, count: int | None = None, memory_gib: float | None = None) -> DeviceClaim:
    return DeviceClaim(name=name, count=count, memory_gib=memory_gib, origin=origin())


def work(prompts: int, group: int) -> WorkSignature:
    return WorkSignature(prompts_per_step=prompts, group_size=group)


def lengths(prompt: float, completion: float, longest: float | None = None) -> SummaryLengths:
    return SummaryLengths(prompt_mean=prompt, completion_mean=completion, completion_max=longest)
