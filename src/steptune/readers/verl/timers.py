"""verl's `timing_s/` keys in each of its schedules.

`timing_s/gen` changes its meaning: in the synchronous trainer it is the whole rollout, in every asynchronous one
it is what the trainer still waits for (`_get_samples_from_queue`, `await batch_data_future`, replay-buffer sample).
Read in verl 1dda039: trainer/ppo/ray_trainer.py, trainer/ppo/v1/, experimental/{fully_async,one_step_off}_policy/.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from steptune.core.phase import Phase, Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer

STEP_KEY = "timing_s/step"
"""Seconds of one step on the driver's clock (fully async: summed over one parameter-sync cycle)."""

ROLLOUTER_ACTIVE_KEY = "fully_async/rollouter/active_time"
"""Seconds of the sync cycle in which the rollouter generated."""

ROLLOUTER_CYCLE_KEY = "fully_async/rollouter/version_time"
"""Seconds of the sync cycle on the rollouter's clock."""

GENERATE_ASYNC_KEY = "timing_s/generate_async"
"""Seconds of one whole batch on the rollout side, one-step-off only."""


class Schedule(StrEnum):
    """How verl's trainer and rollout take turns."""

    SYNC = "sync"
    ONE_STEP_OFF = "one_step_off"
    FULLY_ASYNC = "fully_async"
    V1_ASYNC = "v1_async"


_ONE_STEP_KEYS = {"timing_s/sync_rollout_weights", "timing_s/wait_prev_gen", GENERATE_ASYNC_KEY}
_V1_SWITCH_KEYS = {"timing_s/switch_to_trainer", "timing_s/switch_to_rollout", "timing_s/switch_wait"}
_V1_STALENESS_KEY = "training/off_policy/trajectory_staleness_worst/max"
"""Logged by every V1 trainer; above 0 only if samples were older than the weights."""


_TRAINERS = {
    "fullyasync": Schedule.FULLY_ASYNC,
    "onestepoff": Schedule.ONE_STEP_OFF,
    "separateasync": Schedule.V1_ASYNC,
    "colocateasync": Schedule.V1_ASYNC,
}
"""By the name in `JobFacts.trainer`."""


def schedule_of(records: Iterable[StepRecord], facts: JobFacts) -> Schedule:
    """Return the schedule by the trainer's name, or by keys that only one of the trainers logs.

    The name matters: a fully async line before the first parameter sync has the keys of a synchronous one.
    """
    if any(key.startswith("async_training.") for key in facts.settings):
        return Schedule.FULLY_ASYNC
    found = _TRAINERS.get(facts.trainer or "", Schedule.SYNC)
    for record in records:
        keys = {*record.readings, *(drop.key for drop in record.dropped)}
        if "timing_s/param_sync" in keys or any(key.startswith("fully_async/") for key in keys):
            return Schedule.FULLY_ASYNC
        if keys & _ONE_STEP_KEYS:
            return Schedule.ONE_STEP_OFF
        if keys & _V1_SWITCH_KEYS or (record.value(_V1_STALENESS_KEY) or 0.0) > 0:
            found = Schedule.V1_ASYNC
    return found


_SHARED = (
    Timer(key="timing_s/reward", phase=Phase.REWARD, worker=Role.CONTROLLER),
    Timer(key="timing_s/old_log_prob", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),
    Timer(key="timing_s/old", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),  # EasyR1's name
    Timer(key="timing_s/ref", phase=Phase.REF_LOGPROB, worker=Role.TRAINER),
    Timer(key="timing_s/values", phase=Phase.ADVANTAGE, worker=Role.TRAINER),
    Timer(key="timing_s/adv", phase=Phase.ADVANTAGE, worker=Role.CONTROLLER),
    Timer(key="timing_s/update_critic", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="timing_s/update_actor", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="timing_s/save_checkpoint", phase=Phase.CHECKPOINT, worker=Role.TRAINER, often_outside=True),
    Timer(
        key="timing_s/dump_rollout_generations",
        phase=f"{Phase.UNATTRIBUTED}/dump_rollout_generations",
        worker=Role.TRAINER,
        often_outside=True,
    ),
)
_UPDATE_WEIGHTS = Timer(key="timing_s/update_weights", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER)
_SYNC_ONLY = (
    Timer(key="timing_s/gen", phase=Phase.ROLLOUT, worker=Role.ROLLOUT),
    Timer(
        key="timing_s/agent_loop/slowest/generate_sequences",
        phase=f"{Phase.ROLLOUT}/slowest_sample",
        worker=Role.ROLLOUT,
    ),
    Timer(key="timing_s/agent_loop/generate_sequences/mean", phase=f"{Phase.ROLLOUT}/mean_sample", worker=Role.ROLLOUT),
    Timer(key="timing_s/testing", phase=Phase.VALIDATE, worker=Role.ROLLOUT, often_outside=True),
    _UPDATE_WEIGHTS,
)


def _wait(key: str, phase: Phase = Phase.ROLLOUT, *, often_outside: bool = False) -> Timer:
    return Timer(key=key, phase=phase, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT, often_outside=often_outside)


_ASYNC_WAITS = (_wait("timing_s/gen"), _wait("timing_s/testing", Phase.VALIDATE, often_outside=True))

_TIMERS = {
    Schedule.SYNC: (*_SYNC_ONLY, *_SHARED),
    Schedule.FULLY_ASYNC: (
        *_ASYNC_WAITS,
        _wait("timing_s/wait_for_enough_samples"),
        Timer(key="timing_s/param_sync", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
        *_SHARED,
    ),
    # `update_weights` runs inside `sync_rollout_weights` where both are printed.
    Schedule.ONE_STEP_OFF: (
        *_ASYNC_WAITS,
        _wait("timing_s/wait_prev_gen"),
        Timer(key="timing_s/sync_rollout_weights", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
        Timer(key="timing_s/update_weights", phase=f"{Phase.WEIGHT_SYNC}/update_weights", worker=Role.TRAINER),
        *_SHARED,
    ),
    Schedule.V1_ASYNC: (
        *_ASYNC_WAITS,
        _wait("timing_s/switch_wait"),
        Timer(key="timing_s/switch_to_trainer", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
        Timer(key="timing_s/switch_to_rollout", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
        _UPDATE_WEIGHTS,
        *_SHARED,
    ),
}

UNREMARKABLE_KEYS = ("timing_s/start_profile", "timing_s/stop_profile", STEP_KEY, GENERATE_ASYNC_KEY)
"""Timers that need no word when they are not booked."""


_OTHER_NAMES = {"ref_log_prob": "ref", "log_prob": "old_log_prob", "generate": "gen", "generation": "gen"}
"""Timers that people call by the worker's method."""


_GEN_KEY = "timing_s/gen"
_FORKS_GEN = (
    Timer(key="timing_s/collect_trajectory", phase=Phase.ROLLOUT, worker=Role.ROLLOUT),
    Timer(key="timing_s/generate_trajectories", phase=Phase.ROLLOUT, worker=Role.ROLLOUT),
)
"""The whole rollout in agent trainers on top of verl (rLLM, `agent_ppo_trainer.py` and `agent_workflow_trainer.py`)."""


def timers_of(schedule: Schedule, keys: Collection[str]) -> Sequence[Timer]:
    """Return the meaning of the timers under ``schedule``; others are never added up, they may be nested.

    ``keys`` are those that were read: a fork's name of the rollout counts where verl's own is not there.
    """
    known = _TIMERS[schedule]
    return known if schedule is not Schedule.SYNC or _GEN_KEY in keys else (*_FORKS_GEN, *known)


_OLD_PREFIX = "timing/"
"""Prefix of the timers in verl before 0.2 and in PRIME, which grew out of it; neither timed the whole step."""

_OLD_ONLY = (
    Timer(key="timing/verify", phase=Phase.REWARD, worker=Role.CONTROLLER),
    Timer(key="timing/reward_model", phase=Phase.REWARD, worker=Role.TRAINER),
)
"""PRIME trains a reward model in every step."""


def untimed_timers(schedule: Schedule, keys: Collection[str]) -> Sequence[Timer]:
    """Return the timers to look for where no step is timed: those of ``schedule`` and their older names."""
    known = timers_of(schedule, keys)
    old = (replace(timer, key=timer.key.replace("timing_s/", _OLD_PREFIX)) for timer in known)
    return (*known, *old, *_OLD_ONLY)


def table_key(name: str) -> str | None:
    """Return the timer that a hand-made table calls ``name``: `update_actor`, `timing_s/gen`, `step`, `total`."""
    if name.lower() in ("step", "total", "step time", STEP_KEY):
        return STEP_KEY
    key = f"timing_s/{_OTHER_NAMES.get(name, name).removeprefix('timing_s/')}"
    return key if any(timer.key == key for timers in _TIMERS.values() for timer in timers) else None
