"""Steps of an OpenRLHF log become a Profile.

In the synchronous trainer `step_total` is the sum of the four timers, not wall time: checkpoints, evaluation and moving
samples are in no timer. In the asynchronous one it is wall time, `generation` runs beside training, and `broadcast`
includes waiting for the generator's lock, which is held while it generates. A step total that is the sum of its parts
tells which. `make_experience` holds rewards, old and reference log-probs and values together. Read in OpenRLHF 3c3be62,
trainer/ppo_trainer.py, trainer/ppo_trainer_async.py; timers exist since 4908e6e (2026-03-19).
"""

from collections.abc import Sequence
from dataclasses import replace

from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import PhaseTime, RoleProfile
from steptune.readers.average import KeptSteps
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, no_roles, read_mean_step
from steptune.readers.openrlhf.keys import PREFIX, SERIES, STEP_KEY
from steptune.readers.reading import LogReading
from steptune.readers.step import Reading, StepRecord
from steptune.readers.timers import Timer

_GENERATION_KEY = "timing/generation"
_TRAINER = (
    Timer(key="timing/make_experience", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),
    Timer(key="timing/ppo_train", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="timing/broadcast", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
)
_GENERATION = Timer(key=_GENERATION_KEY, phase=Phase.ROLLOUT, worker=Role.ROLLOUT)
WAIT_KEY = "timing/step_total less make_experience, ppo_train and broadcast"
"""What an asynchronous trainer waits for the queue (and spends on logging and checkpoints): no log prints it."""

_WAIT = Timer(key=WAIT_KEY, phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT)
TIMER_KEYS = (_GENERATION_KEY, *(timer.key for timer in _TRAINER))
"""What a table made by hand may name."""

_SUM_TOLERANCE_FRAC = 1e-3
"""Rounding of the sum of timers against the printed total."""

_SYNC_NOTE = (
    "`timing/step_total` is the sum of OpenRLHF's timers, not wall time: checkpoints and evaluation are missing"
)
_ASYNC_NOTE = "`timing/broadcast` includes the wait for the generator's lock; `timing/generation` runs beside training"
_EXPERIENCE_NOTE = "`timing/make_experience` holds rewards, old and reference log-probs and values together"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has `timing/step_total`."""
    is_async = any(_is_wall_time(record) for record in records)
    meaning = MeanStep(
        framework="openrlhf",
        step_key=STEP_KEY,
        timers=(_WAIT if is_async else _GENERATION, *_TRAINER),
        derived=(WAIT_KEY,),
        clock=(Role.TRAINER,) if is_async else (Role.TRAINER, Role.ROLLOUT),
        other_clocks=_generator_clock if is_async else no_roles,
        schedule="async" if is_async else "sync",
        placement="colocated" if _colocates(facts) else None,
        series=SERIES,
        work=WorkKeys(
            prompts=("rollout.batch_size", "rollout_batch_size"),
            group=("rollout.n_samples_per_prompt", "n_samples_per_prompt"),
            max_completion=("rollout.max_new_tokens", "generate_max_len"),
        ),
        timer_prefix=PREFIX,
        known=(_GENERATION_KEY,),
        notes=(_ASYNC_NOTE if is_async else _SYNC_NOTE, _EXPERIENCE_NOTE),
    )
    return read_mean_step([_with_wait(r) for r in records] if is_async else records, facts, meaning)


def _parts(record: StepRecord) -> list[float] | None:
    parts = [record.value(timer.key) for timer in (*_TRAINER, _GENERATION)]
    return [part for part in parts if part is not None] if None not in parts else None


def _is_wall_time(record: StepRecord) -> bool:
    total, parts = record.value(STEP_KEY), _parts(record)
    return total is not None and parts is not None and abs(sum(parts) - total) > _SUM_TOLERANCE_FRAC * abs(total)


def _with_wait(record: StepRecord) -> StepRecord:
    total = record.readings.get(STEP_KEY)
    if total is None or _parts(record) is None:
        return record
    wait_s = max(total.value - sum(record.value(timer.key) or 0.0 for timer in _TRAINER), 0.0)
    wait = Reading(key=WAIT_KEY, value=wait_s, text=f"{wait_s:.3f}", line=total.line)
    return replace(record, readings={**record.readings, WAIT_KEY: wait})


def _generator_clock(kept: KeptSteps) -> tuple[RoleProfile, ...]:
    busy, wall_s = kept.gauge(_GENERATION_KEY, unit="s"), kept.step_time.value
    if busy is None or busy.value > wall_s:
        return ()
    phase = PhaseTime(
        role=Role.ROLLOUT, phase=Phase.ROLLOUT, kind=SpanKind.BUSY, seconds=busy, origin=kept.origin(_GENERATION_KEY)
    )
    return (RoleProfile(role=Role.ROLLOUT, wall_s=wall_s, phases=(phase,)),)


def _colocates(facts: JobFacts) -> bool:
    return any(facts.settings.get(key) is True for key in ("train.colocate_all", "colocate_all_models"))
