"""Steps of a SkyRL log become a Profile.

`policy_train` and `critic_train` run inside `train_critic_and_policy`; people often quote only the former, so the outer
one counts where it is printed. `generate` holds the environment's and the reward's time. In the fully asynchronous
trainer generation runs in the background: `wait_for_generation_buffer` is the trainer's wait, `run_training` contains
log-probs, advantages and training. Checkpoints are inside `step` in the synchronous trainer and after it in the other,
evaluation is after it in both. Read in SkyRL a956457, skyrl/train/trainer.py,
skyrl/train/fully_async_trainer.py; `sync_weights_to_inference_engines` is the older name (until 0f94c68, 2025-10-03).
"""

from collections.abc import Sequence

from steptune.core.phase import Phase, Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, WorkKeys, read_mean_step
from steptune.readers.formats.run_bar import whole_step_reading
from steptune.readers.reading import LogReading
from steptune.readers.skyrl.keys import PREFIX, SERIES, STEP_KEY
from steptune.readers.step import StepRecord
from steptune.readers.timers import Timer

_ASYNC_KEYS = ("timing/wait_for_generation_buffer", "timing/run_training", "async/staleness_mean")
_OUTER_TRAIN = "timing/train_critic_and_policy"


def _timer(name: str, phase: str, worker: Role = Role.TRAINER, *, often_outside: bool = False) -> Timer:
    return Timer(key=PREFIX + name, phase=phase, worker=worker, often_outside=often_outside)


_SHARED = (
    _timer("fwd_logprobs_values_reward", Phase.OLD_LOGPROB),
    _timer("apply_reward_kl_penalty", Phase.ADVANTAGE, Role.CONTROLLER),
    _timer("compute_advantages_and_returns", Phase.ADVANTAGE, Role.CONTROLLER),
    _timer("sync_weights", Phase.WEIGHT_SYNC),
    _timer("sync_weights_to_inference_engines", Phase.WEIGHT_SYNC),
    _timer("save_checkpoints", Phase.CHECKPOINT, often_outside=True),
    _timer("save_hf_model", Phase.CHECKPOINT, often_outside=True),
    _timer("eval", Phase.VALIDATE, Role.ROLLOUT, often_outside=True),
    _timer("postprocess_generator_output", f"{Phase.UNATTRIBUTED}/postprocess_generator_output"),
    _timer("convert_to_training_input", f"{Phase.UNATTRIBUTED}/convert_to_training_input"),
)
_GENERATE = _timer("generate", Phase.ROLLOUT, Role.ROLLOUT)
_WAIT = Timer(
    key="timing/wait_for_generation_buffer", phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT
)
TIMER_KEYS = tuple(
    [
        _GENERATE.key,
        _WAIT.key,
        _OUTER_TRAIN,
        *(PREFIX + name for name in ("policy_train", "critic_train", "run_training")),
    ]
    + [timer.key for timer in _SHARED]
)
"""What a table made by hand may name."""

_GENERATE_NOTE = "`timing/generate` holds environment steps and rewards too: SkyRL has no timer for them"
_ASYNC_NOTE = "generation runs in the background: its capacity is not in this log, only what the trainer waits for"


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes; None when no step has `timing/step`."""
    keys = {key for record in records for key in record.readings}
    is_async = any(key in keys for key in _ASYNC_KEYS)
    colocated = facts.settings.get("trainer.placement.colocate_all")
    meaning = MeanStep(
        framework="skyrl",
        step_key=STEP_KEY,
        timers=(_WAIT if is_async else _GENERATE, *_train_timers(keys), *_SHARED),
        clock=(Role.TRAINER, Role.CONTROLLER) if is_async else (Role.TRAINER, Role.ROLLOUT, Role.CONTROLLER),
        schedule="async" if is_async else "sync",
        placement=None if not isinstance(colocated, bool) else "colocated" if colocated else "disaggregated",
        series=SERIES,
        work=WorkKeys(
            prompts=("trainer.train_batch_size",),
            group=("generator.n_samples_per_prompt",),
            max_completion=("generator.sampling_params.max_generate_length",),
        ),
        timer_prefix=PREFIX,
        known=("timing/run_training",),
        notes=(_ASYNC_NOTE,) if is_async else (_GENERATE_NOTE,) if _GENERATE.key in keys else (),
    )
    reading = read_mean_step(records, facts, meaning)
    if reading is not None and (reading.profile is not None or reading.phases):
        return reading
    return whole_step_reading(records, facts, "skyrl") or reading


def _train_timers(keys: set[str]) -> tuple[Timer, ...]:
    """The outer timer where it is printed, else its parts, else everything that `run_training` holds."""
    parts = (("policy_train", "policy"), ("critic_train", "critic"))
    if _OUTER_TRAIN in keys:
        inner = (_timer(name, f"{Phase.TRAIN}/{child}") for name, child in parts)
        return (Timer(key=_OUTER_TRAIN, phase=Phase.TRAIN, worker=Role.TRAINER), *inner)
    if any(PREFIX + name in keys for name, _ in parts):
        return tuple(_timer(name, Phase.TRAIN) for name, _ in parts)
    return (_timer("run_training", Phase.TRAIN),)
