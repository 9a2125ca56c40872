"""Steps of a slime log become a Profile.

The trainer's clock is `step_time` = `train_wait_time` + `train_time`; everything but training is inside the wait:
rollout, weight update, sleep and wake-up, data. `rollout_time` is the rollout manager's own clock. In `train.py` both
take turns; in `train_async.py` the rollout of one step runs beside the training of the step before, and a rollout that
is longer than the wait tells so. Read in slime 624b824 (observability/train_metric_utils.py, backends/megatron_utils/
actor.py, train.py, train_async.py); `total_train_time` is the step time until 2e27587 (2025-10-30).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import PhaseTime, RoleProfile
from steptune.readers.average import KeptSteps
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, no_roles, read_mean_step
from steptune.readers.reading import LogReading
from steptune.readers.slime.keys import OLD_STEP_KEY, SERIES, STEP_KEY
from steptune.readers.step import Reading, StepRecord
from steptune.readers.timers import Timer

_ROLLOUT_KEY = "perf/rollout_time"
_WAIT_KEY = "perf/train_wait_time"

_TRAINER = (
    Timer(key="perf/actor_train_time", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="perf/log_probs_time", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),
    Timer(key="perf/ref_log_probs_time", phase=Phase.REF_LOGPROB, worker=Role.TRAINER),
    Timer(key="perf/teacher_log_probs_time", phase=Phase.REF_LOGPROB, worker=Role.TRAINER),
    Timer(key="perf/update_weights_time", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="perf/sleep_time", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
    Timer(key="perf/wake_up_time", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
    Timer(key="perf/save_model_time", phase=Phase.CHECKPOINT, worker=Role.TRAINER, often_outside=True),
    Timer(key="perf/data_preprocess_time", phase=f"{Phase.UNATTRIBUTED}/data_preprocess", worker=Role.TRAINER),
)
EXPOSED_KEY = "perf/train_wait_time less weight update and mode switch"
"""What the trainer waits for samples, where the rollout runs beside it or is not logged: derived, no log prints it."""

_WHOLE_TRAINING = Timer(key="perf/train_time", phase=Phase.TRAIN, worker=Role.TRAINER)
"""Log-probs, advantages and training together: booked only where its parts are not printed."""

_PART_KEYS = ("perf/actor_train_time", "perf/log_probs_time", "perf/ref_log_probs_time")
_EXPOSED = Timer(key=EXPOSED_KEY, phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT)
_PRINTED_WAIT = Timer(
    key=_WAIT_KEY, phase=f"{Phase.UNATTRIBUTED}/train_wait", worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT
)
"""As printed, weight update and mode switch included: shown, never added up."""

_OTHERS_IN_WAIT = ("perf/update_weights_time", "perf/sleep_time", "perf/wake_up_time", "perf/data_preprocess_time")
_ROLLOUT = Timer(key=_ROLLOUT_KEY, phase=Phase.ROLLOUT, worker=Role.ROLLOUT)
TIMER_KEYS = (_ROLLOUT_KEY, _WAIT_KEY, _WHOLE_TRAINING.key, *(timer.key for timer in _TRAINER))
"""What a table made by hand may name."""

_ASYNC_NOTE = "`rollout_time` runs beside training and is no part of the step: only the wait of the trainer is"
_ALONE_NOTE = "the rollout manager's `rollout_time` is not in this log: of the rollout only the trainer's wait is known"
_TOKENS_NOTE = (
    "`tokens_per_gpu_per_sec` counts response tokens over the rollout only; `effective_` leaves out what tools and "
    "environments wrote"
)


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has the trainer's times."""
    step_key = STEP_KEY if any(STEP_KEY in record.readings for record in records) else OLD_STEP_KEY
    is_async = facts.trainer == "trainasync" or any(_overlaps(record) for record in records)
    timed = [record for record in records if step_key in record.readings] or records
    has_rollout = any(_ROLLOUT_KEY in record.readings for record in timed)
    is_alone = is_async or not has_rollout
    has_parts = any(key in record.readings for record in records for key in _PART_KEYS)
    whole = () if has_parts else (_WHOLE_TRAINING,)
    meaning = MeanStep(
        framework="slime",
        step_key=step_key,
        timers=(*((_EXPOSED, _PRINTED_WAIT) if is_alone else (_ROLLOUT,)), *_TRAINER, *whole),
        derived=(EXPOSED_KEY,),
        clock=(Role.TRAINER,) if is_alone else (Role.TRAINER, Role.ROLLOUT),
        other_clocks=_rollout_clock if is_async else no_roles,
        schedule="async" if is_async else "sync",
        placement=_placement(facts, is_async=is_async),
        series=SERIES,
        work=WorkKeys(
            prompts=("rollout_batch_size", "rollout-batch-size"),
            group=("n_samples_per_prompt", "n-samples-per-prompt"),
            max_completion=("rollout_max_response_len", "rollout-max-response-len"),
        ),
        notes=(_TOKENS_NOTE, _ASYNC_NOTE) if is_async else (_TOKENS_NOTE,) if has_rollout else (_ALONE_NOTE,),
    )
    return read_mean_step([_with_exposed_wait(r) for r in records] if is_alone else records, facts, meaning)


def _overlaps(record: StepRecord) -> bool:
    rollout_s, wait_s = record.value(_ROLLOUT_KEY), record.value(_WAIT_KEY)
    return rollout_s is not None and wait_s is not None and rollout_s > wait_s


def _placement(facts: JobFacts, *, is_async: bool) -> Literal["colocated", "disaggregated"] | None:
    if is_async:
        return "disaggregated"  # `Colocation is not supported for async training`, asserted in train_async.py
    return "colocated" if facts.settings.get("colocate") is True else None


def _with_exposed_wait(record: StepRecord) -> StepRecord:
    wait = record.readings.get(_WAIT_KEY)
    if wait is None:
        return record
    exposed_s = max(wait.value - sum(record.value(key) or 0.0 for key in _OTHERS_IN_WAIT), 0.0)
    exposed = Reading(key=EXPOSED_KEY, value=exposed_s, text=f"{exposed_s:.3f}", line=wait.line)
    return replace(record, readings={**record.readings, EXPOSED_KEY: exposed})


def _rollout_clock(kept: KeptSteps) -> tuple[RoleProfile, ...]:
    """The rollout manager's clock, where one rollout fits into a step."""
    busy, wall_s = kept.gauge(_ROLLOUT_KEY, unit="s"), kept.step_time.value
    if busy is None or busy.value > wall_s:
        return ()
    phase = PhaseTime(
        role=Role.ROLLOUT, phase=Phase.ROLLOUT, kind=SpanKind.BUSY, seconds=busy, origin=kept.origin(_ROLLOUT_KEY)
    )
    return (RoleProfile(role=Role.ROLLOUT, wall_s=wall_s, phases=(phase,)),)
