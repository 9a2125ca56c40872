"""What the rules over a paste read: declared numbers, sizes and first origins, each found once.

The surprise: a number is taken from the profile's work first, then from settings, and a setting that is not a plain
number (a shell variable, an interpolation) is unknown, never its default.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from steptune.core.paste import Paste, Series, Setting, ValueStatus, effective
from steptune.core.phase import Role
from steptune.core.profile import Origin, Profile
from steptune.published.declared import Concept, declared_keys, normal_key
from steptune.published.runs import billions_in

MAX_NUMBER = 1e30
"""No metric is larger: such a number is damaged text (a lost decimal point), and sums of it overflow."""

MAX_STEP_S = 1e9
"""Thirty years: no step is longer."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A paste with its settings resolved: build it with `read_job`."""

    paste: Paste
    settings: Mapping[str, Setting]
    """The setting that counts for every key, keys in normal form."""

    @property
    def profile(self) -> Profile | None:
        """The mean step, where there is one."""
        return self.paste.profile

    def declared(self, concept: Concept) -> Setting | None:
        """Return the resolved setting that declares ``concept``, or None."""
        found = (self.settings.get(key) for key in declared_keys(concept))
        return next((s for s in found if s is not None and s.is_resolved and s.value is not None), None)

    def number(self, concept: Concept) -> float | None:
        """Return the declared number, or None when it is not stated as one."""
        setting = self.declared(concept)
        return None if setting is None else plain_number(setting.value)

    def positive(self, concept: Concept) -> float | None:
        """As `number`, but None unless it is above zero."""
        value = self.number(concept)
        return value if value is not None and value > 0 else None

    def series(self, *names: str) -> Series | None:
        """Return the first series, by canonical name or key, that has a finite plausible value."""
        found = (self.paste.get_series(name) for name in names)
        return next((s for s in found if s is not None and s.finite()), None)


def plain_number(value: object) -> float | None:
    """Return a possible number as float; None for anything else, truth values and integers of 400 digits included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        return None
    return float(value)


def read_job(paste: Paste) -> Job:
    """Resolve the settings of ``paste`` and set aside numbers that no job has (see `MAX_NUMBER`, `MAX_STEP_S`)."""
    possible = paste.model_copy(
        update={
            "series": tuple(_possible(series) for series in paste.series),
            "profile": paste.profile if paste.profile is not None and has_possible_step(paste.profile) else None,
        }
    )
    return Job(paste=possible, settings={normal_key(key): s for key, s in effective(paste.settings).items()})


def has_possible_step(profile: Profile) -> bool:
    """Return whether the step time is above zero and below `MAX_STEP_S`."""
    return 0 < profile.step_time.value <= MAX_STEP_S


def _possible(series: Series) -> Series:
    if not any(MAX_NUMBER < abs(point.value) < math.inf for point in series.points):
        return series
    points = [
        p.model_copy(update={"status": ValueStatus.IMPLAUSIBLE}) if MAX_NUMBER < abs(p.value) < math.inf else p
        for p in series.points
    ]
    return series.model_copy(update={"points": tuple(points)})


def origin_of(series: Series, index: int = -1) -> Origin:
    """Return where one point of ``series`` stands; the last by default."""
    return Origin(path=series.path, line=series.points[index].line, key=series.key)


def mean_of(series: Series) -> float:
    """Return the mean of the finite plausible values, of which there must be one (see `Job.series`)."""
    values = series.finite()
    return math.fsum(values) / len(values)


def setting_text(setting: Setting) -> str:
    """Return a setting as evidence, ``actor_rollout_ref.rollout.n=5``."""
    return f"{setting.key}={setting.text}"


def num_devices(job: Job) -> float | None:
    """Return the devices of the whole job: stated, else nodes x devices a node, else what the roles hold."""
    if job.paste.devices is not None and job.paste.devices.count:
        return float(job.paste.devices.count)
    per_node = job.positive("gpus_per_node")
    if per_node is not None:
        return per_node * (job.positive("num_nodes") or 1.0)
    return _held(job.profile)


def _held(profile: Profile | None) -> float | None:
    if profile is None:
        return None
    held = {r.role: r.num_devices for r in profile.roles if r.num_devices}
    trainer, rollout = held.get(Role.TRAINER), held.get(Role.ROLLOUT)
    if profile.placement == "disaggregated":
        return trainer + rollout if trainer and rollout else None
    return trainer or rollout


def num_engines(job: Job) -> float | None:
    """Return the generation engines that work side by side: stated, else devices / tensor-parallel size."""
    if (stated := job.positive("num_engines")) is not None:
        return stated
    rollout = job.profile.role(Role.ROLLOUT) if job.profile else None
    if rollout is not None and rollout.num_replicas:
        return float(rollout.num_replicas)
    devices = rollout.num_devices if rollout is not None and rollout.num_devices else None
    if devices is None and (job.profile is None or job.profile.placement != "disaggregated"):
        devices = num_devices(job)
    width = job.positive("rollout_tp")
    return None if devices is None or width is None or devices < width else devices // width


def samples_per_step(job: Job) -> float | None:
    """Return sequences that one step generates: prompts x group size."""
    if (stated := job.positive("samples_per_step")) is not None:
        return stated
    work = job.profile.work if job.profile else None
    prompts = plain_number(work and work.prompts_per_step) or job.positive("prompts_per_step")
    group = plain_number(work and work.group_size) or job.positive("group_size")
    return None if prompts is None or group is None else prompts * group


def model_billions(job: Job) -> float | None:
    """Return the total parameters in billions as the model's name says, or None."""
    setting = job.declared("model")
    return None if setting is None else billions_in(str(setting.value))
