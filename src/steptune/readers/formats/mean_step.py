"""Steps of any framework become a `Profile`, given what its keys mean.

Written once so that a framework's own module says only what is its own: timers, clocks and what is easily misread.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import Note
from steptune.core.phase import Role
from steptune.core.profile import Health, PhaseTime, Profile, RoleProfile, SummaryLengths, WorkSignature
from steptune.core.units import BYTES_PER_GIB
from steptune.readers.average import KeptSteps, keep_steps
from steptune.readers.facts import JobFacts
from steptune.readers.missing import with_missing
from steptune.readers.plausibility import notes_on, without_impossible_timers
from steptune.readers.reading import Gauge, LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer, serial_roles
from steptune.readers.untimed import outside_phases, untimed_reading


def no_roles(kept: KeptSteps) -> tuple[RoleProfile, ...]:
    """No role runs beside the driver's clock."""
    return ()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WorkKeys:
    """Settings that declare a step's work, by their names in the framework; the first one that is set counts."""

    prompts: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    max_completion: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MeanStep:
    """What one framework's keys mean, under the schedule that was found."""

    framework: str
    step_key: str
    """Reading with the step's seconds."""
    step_note: str = ""
    """How far the step time can be trusted; with one the estimate is derived, not measured."""
    timers: Sequence[Timer]
    derived: tuple[str, ...] = ()
    """Timers that a reader computed from printed ones."""
    clock: tuple[Role, ...]
    """Roles that take turns on the driver's clock."""
    other_clocks: Callable[[KeptSteps], tuple[RoleProfile, ...]] = no_roles
    """Roles that run beside it."""
    schedule: Literal["sync", "async"]
    placement: Literal["colocated", "disaggregated"] | None = None
    series: Mapping[str, Gauge]
    work: WorkKeys = field(default_factory=WorkKeys)
    timer_prefix: str = ""
    known: tuple[str, ...] = ()
    """Timers that need no word when they are not booked."""
    notes: tuple[str, ...] = ()


def read_mean_step(records: Sequence[StepRecord], facts: JobFacts, meaning: MeanStep) -> LogReading | None:
    """Return the profile and its notes, or the phases alone when no step has a step time."""
    possible = [without_impossible_timers(r, step_key=meaning.step_key, timers=meaning.timers) for r in records]
    kept = keep_steps(
        possible,
        step_key=meaning.step_key,
        timer_keys=[timer.key for timer in meaning.timers],
        step_note=meaning.step_note,
    )
    if kept is None:
        return untimed_reading(records, meaning.timers)
    profile = with_missing(_profile(kept, facts, meaning))
    known = [meaning.step_key, *meaning.known, *(timer.key for timer in meaning.timers)]
    notes = notes_on(kept, profile, timer_prefix=meaning.timer_prefix, known=known)
    own = [Note(text=text) for text in (meaning.step_note, *meaning.notes) if text]
    outside = outside_phases(records, possible, meaning.timers)
    return LogReading(profile=profile, phases=outside, notes=(*notes, *own))


def _profile(kept: KeptSteps, facts: JobFacts, meaning: MeanStep) -> Profile:
    gauges = _Gauges(kept=kept, series=meaning.series)
    derived = {"source": Source.DERIVED} if meaning.step_note else {}
    zero_std_frac = gauges.mean("zero_std_frac")
    return Profile(
        framework=meaning.framework,
        framework_version=facts.version,
        schedule=meaning.schedule,
        placement=meaning.placement,
        settings=dict(facts.settings),
        work=_work(facts, meaning.work),
        step_time=kept.step_time.model_copy(update=derived),
        roles=_roles(kept, meaning),
        lengths=SummaryLengths(
            prompt_mean=gauges.mean("prompt_mean"),
            completion_mean=gauges.mean("completion_mean"),
            completion_max=gauges.highest("completion_max"),
            clipped_frac=gauges.mean("clipped_frac"),
        ),
        tokens_per_step=gauges.estimate("tokens", unit="tokens"),
        tokens_per_device_s=gauges.estimate("tokens_per_device_s", unit="tokens/s"),
        staleness_mean=gauges.mean("staleness_mean"),
        health=Health(
            reward_mean=gauges.mean("reward"),
            mixed_groups_frac=None if zero_std_frac is None else 1 - zero_std_frac,
            truncated_frac=gauges.mean("clipped_frac"),
            entropy=gauges.mean("entropy"),
            has_nan=kept.has_nan(),
        ),
        memory_peak_bytes=_memory_peak(gauges),
        num_steps=len(kept.steps),
        num_warmup=kept.num_warmup,
    )


def _roles(kept: KeptSteps, meaning: MeanStep) -> tuple[RoleProfile, ...]:
    roles = (*serial_roles(kept, meaning.timers, meaning.clock), *meaning.other_clocks(kept))
    return tuple(
        role.model_copy(update={"phases": tuple(_marked(phase, meaning.derived) for phase in role.phases)})
        for role in roles
    )


def _marked(phase: PhaseTime, derived: tuple[str, ...]) -> PhaseTime:
    if phase.origin is None or phase.origin.key not in derived:
        return phase
    return phase.model_copy(update={"seconds": phase.seconds.model_copy(update={"source": Source.DERIVED})})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Gauges:
    """Means by canonical name."""

    kept: KeptSteps
    series: Mapping[str, Gauge]

    def values(self, name: str) -> list[float]:
        for key, gauge in self.series.items():
            if gauge.name == name and (values := self.kept.finite(key)):
                return [value * gauge.scale for value in values]
        return []

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return math.fsum(values) / len(values) if values else None

    def highest(self, name: str) -> float | None:
        return max(self.values(name), default=None)

    def estimate(self, name: str, *, unit: str) -> Estimate | None:
        value = self.mean(name)
        if value is None:
            return None
        return Estimate(value=value, unit=unit, source=Source.MEASURED, n=len(self.values(name)))


def _work(facts: JobFacts, keys: WorkKeys) -> WorkSignature:
    def first(names: tuple[str, ...]) -> int | None:
        return next((value for name in names if (value := facts.positive_int(name)) is not None), None)

    return WorkSignature(
        prompts_per_step=first(keys.prompts),
        group_size=first(keys.group),
        max_completion_len=first(keys.max_completion),
    )


def _memory_peak(gauges: _Gauges) -> Estimate | None:
    peak = gauges.highest("memory_reserved_gib") or gauges.highest("memory_allocated_gib")
    if peak is None:
        return None
    note = "highest of the steps, on one device"
    return Estimate(value=peak * BYTES_PER_GIB, unit="bytes", source=Source.MEASURED, n=1, note=note)
