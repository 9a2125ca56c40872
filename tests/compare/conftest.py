"""A job's log as a Paste, from a few numbers."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import DeviceClaim, Paste, Series, SeriesPoint, Setting, SettingValue, ValueStatus
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import Origin, PhaseTime, Profile, RoleProfile, WorkSignature
from steptune.stats.intervals import mean_estimate

MakeJob = Callable[..., Paste]

VERL_KEYS = {"prompts": "data.train_batch_size", "group": "actor_rollout_ref.rollout.n"}


def make_series(name: str, values: Sequence[float], status: ValueStatus = ValueStatus.MEASURED) -> Series:
    points = tuple(SeriesPoint(step=i + 1, value=v, line=i + 1, status=status) for i, v in enumerate(values))
    return Series(name=name, key=name, points=points, path="run.log")


def make_setting(key: str, value: SettingValue) -> Setting:
    origin = Origin(path="run.sh", line=1, key=key)
    return Setting(key=key, value=value, text=str(value), layer="override", origin=origin)


def _profile(times: Sequence[float], tokens: Sequence[float] | None, phases: Mapping[str, float]) -> Profile:
    step = mean_estimate(list(times), "s")
    spans = tuple(
        PhaseTime(
            role=Role.TRAINER,
            phase=phase,
            kind=SpanKind.BUSY,
            seconds=Estimate(value=seconds, unit="s", source=Source.MEASURED, n=len(times)),
        )
        for phase, seconds in phases.items()
    )
    return Profile(
        framework="verl",
        work=WorkSignature(),
        step_time=step,
        roles=(RoleProfile(role=Role.TRAINER, wall_s=step.value, phases=spans),),
        tokens_per_step=None if tokens is None else mean_estimate(list(tokens), "tokens"),
        num_steps=len(times),
    )


@pytest.fixture
def job() -> MakeJob:
    """Return a builder: ``job(times=[...], tokens=[...], prompts=256, group=5, devices=8, phases={...})``."""

    def build(
        times: Sequence[float] = (),
        tokens: Sequence[float] | None = None,
        *,
        prompts: int | None = None,
        group: int | None = None,
        devices: int | None = 8,
        card_gib: float | None = None,
        gpu: str | None = None,
        phases: Mapping[str, float] | None = None,
        version: str | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        series: Mapping[str, Sequence[float]] | None = None,
    ) -> Paste:
        stated = dict(settings or {})
        stated |= {VERL_KEYS["prompts"]: prompts} if prompts is not None else {}
        stated |= {VERL_KEYS["group"]: group} if group is not None else {}
        logged = {"step_time": times, "tokens": tokens or (), **(series or {})}
        return Paste(
            paths=("run.log",),
            framework="verl",
            framework_version=version,
            settings=tuple(make_setting(key, value) for key, value in stated.items()),
            series=tuple(make_series(name, values) for name, values in logged.items() if values),
            devices=DeviceClaim(
                name=gpu, count=devices, memory_gib=card_gib, origin=Origin(path="run.log", line=1, key="devices")
            ),
            profile=_profile(times, tokens, phases or {}) if times else None,
            num_steps_seen=len(times),
        )

    return build
