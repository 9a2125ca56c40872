"""Steps of an AReaL log become a Profile.

Every timer is on the trainer's clock and they follow one another, so the step is their sum (nothing prints it).
`rollout` is the time until a batch is ready: with `max_head_offpolicyness` above 0 the engines work on while the
trainer trains, so it is a wait; only where that setting is 0 it is the whole generation. Where the setting is not
known it is taken for a wait. Read in AReaL cbff54d, areal/trainer/rl_trainer.py, areal/utils/stats_tracker.py.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from steptune.core.phase import Phase, Role, SpanKind
from steptune.readers.areal.keys import END_TO_END_KEY, PREFIX, SERIES, TOTAL_KEY
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, read_mean_step
from steptune.readers.reading import LogReading
from steptune.readers.step import Reading, StepRecord
from steptune.readers.timers import Timer

_STALENESS_KEYS = ("rollout.max_head_offpolicyness", "max_head_offpolicyness")
_MODES = (
    *("rollout_pause", "rollout_pause_generation", "rollout_continue_generation", "rollout_resume"),
    *(f"{role}_{way}" for role in ("rollout", "actor", "critic", "ref", "teacher") for way in ("onload", "offload")),
)
_TIMERS = (
    *(Timer(key=PREFIX + name, phase=Phase.MODE_SWITCH, worker=Role.TRAINER) for name in _MODES),
    Timer(key="timeperf/recompute_logp", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),
    Timer(key="timeperf/ref_logp", phase=Phase.REF_LOGPROB, worker=Role.TRAINER),
    Timer(key="timeperf/teacher_logp", phase=Phase.REF_LOGPROB, worker=Role.TRAINER),
    Timer(key="timeperf/critic_values", phase=Phase.ADVANTAGE, worker=Role.TRAINER),
    Timer(key="timeperf/compute_advantage", phase=Phase.ADVANTAGE, worker=Role.TRAINER),
    Timer(key="timeperf/train_step", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="timeperf/critic_train_step", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="timeperf/update_weights", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="timeperf/save", phase=Phase.CHECKPOINT, worker=Role.TRAINER),
    Timer(key="timeperf/checkpoint_for_recover", phase=Phase.CHECKPOINT, worker=Role.TRAINER),
    Timer(key="timeperf/eval", phase=Phase.VALIDATE, worker=Role.ROLLOUT),
    Timer(key="timeperf/clear_batches", phase=f"{Phase.UNATTRIBUTED}/clear_batches", worker=Role.TRAINER),
)
_TOTAL_NOTE = "step time is the sum of AReaL's timers: what none of them covers is missing"
_WAIT_NOTE = "`timeperf/rollout` is what the trainer waits for a batch, not what the engines can do"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has the times of both rollout and training."""
    staleness = next((facts.settings[key] for key in _STALENESS_KEYS if key in facts.settings), None)
    is_async = staleness != 0
    rollout = Timer(
        key="timeperf/rollout",
        phase=Phase.ROLLOUT,
        worker=Role.TRAINER if is_async else Role.ROLLOUT,
        kind=SpanKind.EXPOSED_WAIT if is_async else SpanKind.BUSY,
    )
    totalled = [_with_total(record) for record in records]
    is_summed = any(TOTAL_KEY in record.readings for record in totalled)
    meaning = MeanStep(
        framework="areal",
        step_key=TOTAL_KEY if is_summed else END_TO_END_KEY,
        step_note=_TOTAL_NOTE if is_summed else "",
        timers=(rollout, *_TIMERS),
        clock=(Role.TRAINER,) if is_async else (Role.TRAINER, Role.ROLLOUT),
        schedule="async" if is_async else "sync",
        series=SERIES,
        work=WorkKeys(
            prompts=("train_dataset.batch_size", "rollout.consumer_batch_size"),
            group=("gconfig.n_samples",),
            max_completion=("gconfig.max_new_tokens",),
        ),
        timer_prefix=PREFIX,
        notes=(_WAIT_NOTE,) if is_async and is_summed else (),
    )
    return read_mean_step(totalled, facts, meaning)


def _with_total(record: StepRecord) -> StepRecord:
    known = ("timeperf/rollout", *(timer.key for timer in _TIMERS))
    timers = {key: r for key in known if (r := record.readings.get(key)) is not None and math.isfinite(r.value)}
    if not {"timeperf/rollout", "timeperf/train_step"} <= set(timers):
        return record
    seconds = math.fsum(reading.value for reading in timers.values())
    line = min(reading.line for reading in timers.values())
    total = Reading(key=TOTAL_KEY, value=seconds, text=f"{seconds:.3f}", line=line)
    return replace(record, readings={**record.readings, TOTAL_KEY: total})
