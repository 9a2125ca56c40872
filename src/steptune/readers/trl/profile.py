"""Steps of a TRL log become a Profile, where one can be made.

TRL's console holds at most the whole step (`step_time`); phases come from DeepSpeed's timers or the `profiling/` keys
of W&B, MLflow and Trackio. A progress bar alone cannot say where time goes: it gives no role, only whole steps, the
median of spans of what has elapsed, and nothing where there are too few of them. The rate that it prints mixes steps
that generate with steps that do not.

`fwd` and `bwd` are DeepSpeed's engine calls of one optimizer step (deepspeed/utils/timer.py 038beb6): forward passes
for old log-probs count as `fwd` too. `profiling/` values are one call each, not sums: generation, reward and weight
sync run once per generation, so they are booked; `compute_loss` (forward only) and
`_get_per_token_logps_and_entropies` run once per micro-batch, so they are shown and not added up. `_prepare_inputs`
contains the booked ones (trl f2cd577).
"""

from collections.abc import Sequence
from statistics import median

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Phase, Role
from steptune.readers.average import MIN_STEPS_KEPT, WARMUP_STEPS
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, read_mean_step
from steptune.readers.formats.run_bar import MAX_RATE_RATIO, as_mean_of
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer
from steptune.readers.trl.elapsed import CLOCK_KEY, ELAPSED_KEY, SINCE_START_KEY, with_clock_spans
from steptune.readers.trl.keys import BACKWARD_KEY, BAR_KEY, FORWARD_KEY, SERIES, STEP_KEY
from steptune.readers.trl.swift import MEAN_STEP_KEY

_BAR_NOTE = (
    "step time is the progress bar's average of recent steps: with several optimizer steps per generation it mixes "
    "steps that generate with steps that do not"
)
_ELAPSED_NOTE = "step time is the median over spans of steps of what the progress bar says has elapsed"
_RUN_NOTE = "step time is the mean since the run began, loading and warm-up included"

_BAR_KEYS = {BAR_KEY, ELAPSED_KEY, SINCE_START_KEY}
MIN_BAR_STEP_S = 0.25
"""Shortest mean step in seconds that is believed of one state of a bar without a name. Prior."""

MIN_RUN_STEPS = WARMUP_STEPS + MIN_STEPS_KEPT
"""Steps that a mean since the beginning must be of: fewer are warm-up for the most part."""

_STEP_NOTE = (
    "TRL's `step_time` leaves out optimizer step, data loading and checkpoints; with steps_per_generation above "
    "gradient_accumulation_steps it is long where a step generates and short elsewhere: average whole cycles"
)
_FORWARD_NOTE = "DeepSpeed's `fwd` holds the forward passes for old log-probs too"
_PROFILING_NOTE = "`profiling/` times are single calls: those that run per micro-batch are not added up"

_DEEPSPEED = (
    Timer(key=FORWARD_KEY, phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key=BACKWARD_KEY, phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="step", phase=Phase.TRAIN, worker=Role.TRAINER, often_outside=True),
    Timer(key="bwd_allreduce", phase=f"{Phase.TRAIN}/backward_allreduce", worker=Role.TRAINER),
)
_GENERATE_KEYS = ("vLLM.generate", "transformers.generate", "transformers.generate_batch")
_PROFILING = (
    *(Timer(key=f"profiling/{name}", phase=Phase.ROLLOUT, worker=Role.ROLLOUT) for name in _GENERATE_KEYS),
    Timer(key="profiling/sync_weights", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="profiling/_move_model_to_vllm", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="profiling/_calculate_rewards", phase=Phase.REWARD, worker=Role.CONTROLLER),
    *(
        Timer(key=f"profiling/{name}", phase=f"{Phase.UNATTRIBUTED}/{name.strip('_')}", worker=Role.TRAINER)
        for name in ("compute_loss", "_get_per_token_logps_and_entropies", "_prepare_inputs")
    ),
)
_WORK = WorkKeys(group=("num_generations",), max_completion=("max_completion_length",))


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when nothing but a few states of a progress bar tells the time."""
    keys = {key for record in records for key in record.readings}
    if not keys & {STEP_KEY, FORWARD_KEY}:
        return _whole_steps(with_clock_spans(records) if CLOCK_KEY in keys else records, facts)
    step_key = STEP_KEY if STEP_KEY in keys else BAR_KEY
    has_profiling = any(key.startswith("profiling/") for key in keys)
    step_notes = {STEP_KEY: "", BAR_KEY: _BAR_NOTE}
    meaning = MeanStep(
        framework="trl",
        step_key=step_key,
        step_note=step_notes[step_key],
        timers=(*_DEEPSPEED, *_PROFILING),
        clock=(Role.TRAINER, Role.ROLLOUT, Role.CONTROLLER),
        schedule="sync",
        placement="colocated" if facts.settings.get("vllm_mode") == "colocate" else None,
        series=SERIES,
        work=_WORK,
        notes=(
            *((_STEP_NOTE,) if step_key == STEP_KEY else ()),
            *((_FORWARD_NOTE,) if FORWARD_KEY in keys else ()),
            *((_PROFILING_NOTE,) if has_profiling else ()),
        ),
    )
    return read_mean_step(records, facts, meaning)


def _whole_steps(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return a profile without roles: the median of the spans."""
    spans_s = [value for record in records if (value := record.value(ELAPSED_KEY)) is not None]
    if any(record.has_broken(ELAPSED_KEY) for record in records):
        return None
    if len(spans_s) < MIN_STEPS_KEPT:
        return _run_so_far(records, facts)
    meaning = MeanStep(
        framework="trl",
        step_key=ELAPSED_KEY,
        step_note=_ELAPSED_NOTE,
        timers=(),
        clock=(),
        schedule="sync",
        series=SERIES,
        work=_WORK,
    )
    reading = read_mean_step(records, facts, meaning)
    if reading is None or reading.profile is None:
        return reading
    step_time = Estimate(value=median(spans_s), unit="s", source=Source.DERIVED, n=len(spans_s), note=_ELAPSED_NOTE)
    return LogReading(profile=reading.profile.model_copy(update={"step_time": step_time}), notes=reading.notes)


def _run_so_far(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return a profile without roles: the mean step since the run began, as the last record of enough steps states."""
    stated = [record for record in records if _mean_key(record) is not None]
    last = max(stated, key=lambda record: record.number or 0, default=None)
    if last is None or (last.number or 0) < MIN_RUN_STEPS or (step_key := _mean_key(last)) is None:
        return None
    meaning = MeanStep(
        framework="trl",
        step_key=step_key,
        step_note=_RUN_NOTE,
        timers=(),
        clock=(),
        schedule="sync",
        series=SERIES,
        work=_WORK,
    )
    return as_mean_of(read_mean_step([last], facts, meaning), last.number)


def _mean_key(record: StepRecord) -> str | None:
    """Return the key of the mean since the run began, as the log states it or as its bar's clock and rate agree on.

    They do not where a run was resumed, or where long and short steps in turn move the rate. A bar beside no metrics,
    or with several items a second, is one over a data set as often as one over steps.
    """
    if record.value(MEAN_STEP_KEY) is not None:
        return MEAN_STEP_KEY
    rate_s, mean_s = record.value(BAR_KEY), record.value(SINCE_START_KEY)
    if rate_s is None or mean_s is None or not record.readings.keys() - _BAR_KEYS or mean_s < MIN_BAR_STEP_S:
        return None
    return SINCE_START_KEY if max(rate_s, mean_s) <= MAX_RATE_RATIO * min(rate_s, mean_s) else None
