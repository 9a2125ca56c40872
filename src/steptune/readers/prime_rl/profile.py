"""Steps of a prime-rl job become a Profile.

Always disaggregated and asynchronous: the trainer's step holds its wait for a batch, the orchestrator's step (the time
between two batches shipped) is a clock beside it. The console prints only whole steps; phases are in the trainer's
`metrics.jsonl`: `wait_for_batch` is a wait, `forward_backward` includes the optimizer. The first step's throughput of 0
is undefined, not zero, and its time pays for compilation, so it is left out of the mean. Read in prime-rl 559b447,
trainer/rl/train.py, orchestrator/orchestrator.py.
"""

from collections.abc import Sequence
from dataclasses import replace

from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import RoleProfile
from steptune.readers.average import KeptSteps
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, no_roles, read_mean_step
from steptune.readers.prime_rl.keys import (
    FILE_STEP_KEY,
    MFU_KEY,
    ORCHESTRATOR_STEP_KEY,
    SERIES,
    THROUGHPUT_KEY,
    TRAINER_STEP_KEY,
)
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer

_TIMERS = (
    Timer(key="time/wait_for_batch", phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT),
    Timer(key="time/forward_backward", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="time/broadcast_weights", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="time/save_ckpt", phase=Phase.CHECKPOINT, worker=Role.TRAINER, often_outside=True),
    Timer(key="time/load_data", phase=f"{Phase.UNATTRIBUTED}/load_data", worker=Role.TRAINER),
    Timer(key="time/wait_for_policy", phase=Phase.WEIGHT_SYNC, worker=Role.CONTROLLER, kind=SpanKind.EXPOSED_WAIT),
    Timer(key="time/pack", phase=f"{Phase.UNATTRIBUTED}/pack", worker=Role.CONTROLLER),
)
_CONSOLE_NOTE = (
    "prime-rl's console prints whole steps only: the split of a step is in `metrics.jsonl` (`time/wait_for_batch`, "
    "`time/wait_for_policy`)"
)
_ORCHESTRATOR_NOTE = (
    "these are the orchestrator's steps, the time between two shipped batches: until the async level is constant they "
    "get shorter only because the pipeline fills"
)
_FIRST_NOTE = "throughput 0 of the first step is undefined, not zero; the step is left out of the mean"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has a time."""
    defined = [record for record in records if record.value(THROUGHPUT_KEY) != 0] or list(records)
    keys = {key for record in defined for key in record.readings}
    step_key = next(
        (key for key in (TRAINER_STEP_KEY, FILE_STEP_KEY, ORCHESTRATOR_STEP_KEY) if key in keys), TRAINER_STEP_KEY
    )
    has_both = {TRAINER_STEP_KEY, ORCHESTRATOR_STEP_KEY} <= keys
    meaning = MeanStep(
        framework="prime_rl",
        step_key=step_key,
        timers=_TIMERS if step_key == FILE_STEP_KEY else (),
        clock=(Role.CONTROLLER if step_key == ORCHESTRATOR_STEP_KEY else Role.TRAINER,),
        other_clocks=_orchestrator_clock if has_both else no_roles,
        schedule="async",
        placement="disaggregated",
        series=SERIES,
        work=WorkKeys(
            prompts=("orchestrator.batch_size", "batch_size"),
            group=("orchestrator.rollouts_per_example", "rollouts_per_example", "orchestrator.group_size"),
            max_completion=("orchestrator.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens"),
        ),
        notes=(
            *(() if step_key == FILE_STEP_KEY else (_CONSOLE_NOTE,)),
            *((_ORCHESTRATOR_NOTE,) if ORCHESTRATOR_STEP_KEY in keys else ()),
            *((_FIRST_NOTE,) if len(defined) < len(records) else ()),
        ),
    )
    return read_mean_step([_without_percentages(record) for record in defined], facts, meaning)


def _without_percentages(record: StepRecord) -> StepRecord:
    """An MFU of 31.4 is a percentage here; what judges a profile takes values above 1 for impossible."""
    return replace(record, readings={key: r for key, r in record.readings.items() if key != MFU_KEY})


def _orchestrator_clock(kept: KeptSteps) -> tuple[RoleProfile, ...]:
    wall = kept.gauge(ORCHESTRATOR_STEP_KEY, unit="s")
    return () if wall is None else (RoleProfile(role=Role.CONTROLLER, wall_s=wall.value, phases=()),)
