"""Steps of a torchforge log become a Profile.

The trainer's loop runs beside the rollout loops: `waiting_for_buffer` is its wait. A rollout loop's durations are those
of one iteration, of which several threads run many per training step; what carries over is its split, so the rollout
role is booked with the step's length and the loop's shares. Generation there includes waiting for weight updates.
Read in torchforge 6e77f0b, apps/grpo/main.py, src/forge/observability/perf_tracker.py.
"""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import PhaseTime, RoleProfile
from steptune.readers.average import KeptSteps
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, read_mean_step
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer
from steptune.readers.torchforge.keys import ROLLOUTS, SERIES, STEP_KEY, TRAINING

_AVG = "/duration_avg_s"
_TIMERS = (
    Timer(
        key=f"{TRAINING}waiting_for_buffer{_AVG}", phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT
    ),
    Timer(key=f"{TRAINING}train_step{_AVG}", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key=f"{TRAINING}push_weights{_AVG}", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key=f"{TRAINING}update_weights{_AVG}", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key=f"{TRAINING}drop_weights{_AVG}", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
)
_ROLLOUT_PHASES = (
    ("policy_generation", Phase.ROLLOUT),
    ("reward_evaluation", Phase.REWARD),
    ("reference_model_calculate_logprobs", Phase.REF_LOGPROB),
)
_SHARE_NOTE = "share of a rollout loop's iteration, carried over to the step"
_CUT_NOTE = "the block breaks off: timers late in the alphabet (`waiting_for_buffer`, `update_weights`) may be missing"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has the length of the training loop."""
    meaning = MeanStep(
        framework="torchforge",
        step_key=STEP_KEY,
        timers=_TIMERS,
        clock=(Role.TRAINER,),
        other_clocks=_rollout_loop,
        schedule="async",
        placement="disaggregated",
        series=SERIES,
        work=WorkKeys(prompts=("local_batch_size",), group=("group_size",), max_completion=("max_res_tokens",)),
        notes=(_CUT_NOTE,) if any(record.is_cut for record in records) else (),
    )
    return read_mean_step(records, facts, meaning)


def _rollout_loop(kept: KeptSteps) -> tuple[RoleProfile, ...]:
    total = kept.gauge(f"{ROLLOUTS}total_duration_avg_s", unit="s")
    if total is None or total.value <= 0:
        return ()
    wall_s = kept.step_time.value
    phases = [_phase(kept, name, phase, wall_s / total.value) for name, phase in _ROLLOUT_PHASES]
    role = RoleProfile(role=Role.ROLLOUT, wall_s=wall_s, phases=tuple(phase for phase in phases if phase is not None))
    return (role,) if role.busy_s() <= wall_s else ()


def _phase(kept: KeptSteps, name: str, phase: Phase, scale: float) -> PhaseTime | None:
    key = f"{ROLLOUTS}{name}{_AVG}"
    seconds = kept.gauge(key, unit="s")
    if seconds is None or seconds.value < 0:
        return None
    scaled = Estimate(value=seconds.value * scale, unit="s", source=Source.DERIVED, n=seconds.n, note=_SHARE_NOTE)
    return PhaseTime(role=Role.ROLLOUT, phase=phase, kind=SpanKind.BUSY, seconds=scaled, origin=kept.origin(key))
