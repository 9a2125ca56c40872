"""Steps of a verl log become a Profile."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import Note
from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import Health, PhaseTime, Profile, RoleProfile, SummaryLengths, WorkSignature
from steptune.core.units import BYTES_PER_GIB
from steptune.readers.average import KeptSteps, keep_steps
from steptune.readers.facts import JobFacts
from steptune.readers.formats.run_bar import whole_step_reading
from steptune.readers.missing import with_missing
from steptune.readers.plausibility import notes_on, without_impossible_timers
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import serial_roles
from steptune.readers.untimed import notes_on_dropped, outside_phases, untimed_reading
from steptune.readers.values import whole_count
from steptune.readers.verl.devices import rollout_devices, rollout_replicas, trainer_devices
from steptune.readers.verl.timers import (
    GENERATE_ASYNC_KEY,
    ROLLOUTER_ACTIVE_KEY,
    ROLLOUTER_CYCLE_KEY,
    STEP_KEY,
    UNREMARKABLE_KEYS,
    Schedule,
    schedule_of,
    timers_of,
    untimed_timers,
)

_PLACEMENT: Mapping[Schedule, Literal["colocated", "disaggregated"] | None] = {
    Schedule.SYNC: "colocated",  # `Currently, only support hybrid engine`, asserted in verl's ray_trainer.py
    Schedule.ONE_STEP_OFF: "disaggregated",
    Schedule.FULLY_ASYNC: "disaggregated",
    Schedule.V1_ASYNC: None,  # colocate_async and separate_async print the same keys
}
_CYCLE_KEY = "async_training.trigger_parameter_sync_step"
_IDLE_NOTE = "verl counts only the last pause of the cycle as idle (verl #6693): the true wait may be longer"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes, or the phases alone when no step has `timing_s/step`."""
    schedule = schedule_of(records, facts)
    timers = timers_of(schedule, _keys(records))
    possible = [without_impossible_timers(record, step_key=STEP_KEY, timers=timers) for record in records]
    cycle = _steps_per_line(possible, facts) if schedule is Schedule.FULLY_ASYNC else None
    step_note = "" if cycle is None else f"one parameter-sync cycle of {cycle} trainer steps"
    kept = keep_steps(possible, step_key=STEP_KEY, timer_keys=[t.key for t in timers], step_note=step_note)
    if kept is None:
        reading = untimed_reading(records, untimed_timers(schedule, _keys(records)))
        return reading if reading and reading.phases else whole_step_reading(records, facts, "verl") or reading
    settings = dict(facts.settings) | ({} if cycle is None else {_CYCLE_KEY: cycle})
    profile = with_missing(_profile(kept, facts, schedule).model_copy(update={"settings": settings}))
    known = [*UNREMARKABLE_KEYS, *(timer.key for timer in timers)]
    notes = notes_on(kept, profile, timer_prefix="timing_s/", known=known)
    left_out = notes_on_dropped([record for record in possible if record.value(STEP_KEY) is None])
    said = (*notes, *(note for note in left_out if note not in notes), *_rollouter_notes(profile, schedule))
    return LogReading(profile=profile, phases=outside_phases(records, possible, timers), notes=said)


def _profile(kept: KeptSteps, facts: JobFacts, schedule: Schedule) -> Profile:
    return Profile(
        framework="verl",
        framework_version=facts.version,
        schedule="sync" if schedule is Schedule.SYNC else "async",
        placement=_PLACEMENT[schedule],
        work=_work(facts),
        step_time=kept.step_time,
        roles=_roles(kept, facts, schedule),
        lengths=SummaryLengths(
            prompt_mean=kept.gauge_value("prompt_length/mean"),
            completion_mean=kept.gauge_value("response_length/mean"),
            completion_max=max(kept.finite("response_length/max"), default=None),
            clipped_frac=kept.gauge_value("response_length/clip_ratio"),
        ),
        tokens_per_step=kept.gauge("perf/total_num_tokens", unit="tokens"),
        tokens_per_device_s=kept.gauge("perf/throughput", unit="tokens/s", note="per GPU as verl counts GPUs"),
        staleness_mean=kept.gauge_value("training/off_policy/trajectory_staleness/mean"),
        health=Health(
            reward_mean=kept.gauge_value("critic/score/mean", "critic/rewards/mean"),
            truncated_frac=kept.gauge_value("response_length/clip_ratio"),
            entropy=kept.gauge_value("actor/entropy", "actor/entropy_loss"),
            has_nan=kept.has_nan(),
        ),
        memory_peak_bytes=_memory_peak(kept),
        num_steps=len(kept.steps),
        num_warmup=kept.num_warmup,
    )


def _keys(records: Sequence[StepRecord]) -> frozenset[str]:
    """All keys that were read, broken ones included."""
    return frozenset(key for r in records for key in (*r.readings, *(drop.key for drop in r.dropped)))


def _roles(kept: KeptSteps, facts: JobFacts, schedule: Schedule) -> tuple[RoleProfile, ...]:
    timers = timers_of(schedule, _keys(kept.steps))
    if schedule is Schedule.SYNC:
        roles = serial_roles(kept, timers, (Role.TRAINER, Role.ROLLOUT, Role.CONTROLLER))
    else:
        roles = serial_roles(kept, timers, (Role.TRAINER, Role.CONTROLLER))
        rollout = _rollout_clock(kept, schedule)
        roles = roles if rollout is None else (*roles, rollout)
    return tuple(_with_devices(role, kept, facts, schedule) for role in roles)


def _with_devices(role: RoleProfile, kept: KeptSteps, facts: JobFacts, schedule: Schedule) -> RoleProfile:
    if role.role is Role.TRAINER:
        return role.model_copy(update={"num_devices": trainer_devices(kept, facts, schedule)})
    if role.role is Role.ROLLOUT:
        devices = rollout_devices(kept, facts, schedule)
        return role.model_copy(update={"num_devices": devices, "num_replicas": rollout_replicas(devices, facts)})
    return role


def _rollout_clock(kept: KeptSteps, schedule: Schedule) -> RoleProfile | None:
    """The rollout side's own clock, where a log has one; without it the role is left out, not shown as idle."""
    if schedule is Schedule.ONE_STEP_OFF:
        busy = kept.gauge(GENERATE_ASYNC_KEY, unit="s")
        wall_s = kept.step_time.value
        return None if busy is None or busy.value > wall_s else _rollout(kept, GENERATE_ASYNC_KEY, wall_s, busy, None)
    busy, cycle = (kept.gauge(key, unit="s") for key in (ROLLOUTER_ACTIVE_KEY, ROLLOUTER_CYCLE_KEY))
    if busy is None or cycle is None or not 0 <= busy.value <= cycle.value:
        return None
    idle = Estimate(value=cycle.value - busy.value, unit="s", source=Source.DERIVED, n=cycle.n, note=_IDLE_NOTE)
    return _rollout(kept, ROLLOUTER_ACTIVE_KEY, cycle.value, busy, idle)


def _rollout(kept: KeptSteps, key: str, wall_s: float, busy: Estimate, idle: Estimate | None) -> RoleProfile:
    booked = [(SpanKind.BUSY, busy)] + ([] if idle is None else [(SpanKind.EXPOSED_WAIT, idle)])
    phases = tuple(
        PhaseTime(role=Role.ROLLOUT, phase=Phase.ROLLOUT, kind=kind, seconds=seconds, origin=kept.origin(key))
        for kind, seconds in booked
    )
    return RoleProfile(role=Role.ROLLOUT, wall_s=wall_s, phases=phases)


def _work(facts: JobFacts) -> WorkSignature:
    """Declared work; `worker.` and `rollout_batch_size` are EasyR1's names, those without a section people's."""
    prompts = _first(facts, "data.train_batch_size", "data.rollout_batch_size", "train_batch_size")
    mini = _first(
        facts, "actor_rollout_ref.actor.ppo_mini_batch_size", "worker.actor.global_batch_size", "ppo_mini_batch_size"
    )
    epochs = facts.positive_int("actor_rollout_ref.actor.ppo_epochs") or 1  # verl's default
    divides = prompts is not None and mini is not None and prompts % mini == 0
    return WorkSignature(
        prompts_per_step=prompts,
        group_size=_first(facts, "actor_rollout_ref.rollout.n", "worker.rollout.n", "rollout.n"),
        max_completion_len=_first(facts, "data.max_response_length", "max_response_length"),
        num_updates=prompts // mini * epochs if divides and prompts and mini else None,
    )


def _first(facts: JobFacts, *keys: str) -> int | None:
    return next((value for key in keys if (value := facts.positive_int(key)) is not None), None)


def _memory_peak(kept: KeptSteps) -> Estimate | None:
    """Peak over steps. V1 prefixes the key with `actor/`; verl divides by 1024**3 and calls it GB."""
    peaks = [
        peak
        for key in ("perf/max_memory_allocated_gb", "actor/perf/max_memory_allocated_gb")
        for peak in kept.finite(key)
    ]
    if not peaks:
        return None
    note = "highest of the steps, allocated on one device"
    return Estimate(value=max(peaks) * BYTES_PER_GIB, unit="bytes", source=Source.MEASURED, n=len(peaks), note=note)


def _steps_per_line(records: Sequence[StepRecord], facts: JobFacts) -> int | None:
    """Trainer steps summed up in one line: as configured, or the constant distance of the global steps printed."""
    configured = facts.positive_int(_CYCLE_KEY)
    steps = [v for record in records if (v := record.value("training/global_step")) is not None]
    distances = {b - a for a, b in pairwise(steps)}
    return configured or (whole_count(distances.pop()) if len(distances) == 1 else None)


def _rollouter_notes(profile: Profile, schedule: Schedule) -> list[Note]:
    rollout = profile.role(Role.ROLLOUT)
    if schedule is Schedule.SYNC:
        return []
    if rollout is None:
        return [Note(text="the log has no usable clock of the rollout side: its capacity is unknown, `gen` is a wait")]
    return [Note(text=_IDLE_NOTE)] if schedule is Schedule.FULLY_ASYNC else []
