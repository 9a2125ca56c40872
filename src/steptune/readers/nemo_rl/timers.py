"""NeMo RL's timers (`timing/train/`), synchronous and asynchronous.

`exposed_generation` is what the trainer waits for samples, never generation capacity. Until November 2025 the wait
for an empty buffer was in `buffer_sampling` and the former held only the wait before a refit: both are the same wait.
`a/b` timers run inside `a`, but `prepare_for_generation/total` is a top-level one. Read in NeMo RL 7ea279a and
42aa41b, nemo_rl/algorithms/grpo.py.
"""

from collections.abc import Sequence

from steptune.core.phase import Phase, Role, SpanKind
from steptune.readers.timers import Timer

_SHARED = (
    Timer(key="policy_and_reference_logprobs", phase=Phase.OLD_LOGPROB, worker=Role.TRAINER),
    Timer(key="policy_training", phase=Phase.TRAIN, worker=Role.TRAINER),
    Timer(key="logprob_inference_prep", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
    Timer(key="training_prep", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
    Timer(key="offload_before_refit", phase=Phase.MODE_SWITCH, worker=Role.TRAINER),
    Timer(key="reward_calculation", phase=Phase.REWARD, worker=Role.CONTROLLER),
    Timer(key="advantage_calculation", phase=Phase.ADVANTAGE, worker=Role.CONTROLLER),
    Timer(key="checkpointing", phase=Phase.CHECKPOINT, worker=Role.TRAINER, often_outside=True),
    Timer(key="data_processing", phase=f"{Phase.UNATTRIBUTED}/data_processing", worker=Role.TRAINER),
)

SYNC_TIMERS: Sequence[Timer] = (
    Timer(key="generation", phase=Phase.ROLLOUT, worker=Role.ROLLOUT),
    Timer(key="prepare_for_generation", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="prepare_for_generation/total", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(
        key="prepare_for_generation/transfer_and_update_weights",
        phase=f"{Phase.WEIGHT_SYNC}/transfer",
        worker=Role.TRAINER,
    ),
    *_SHARED,
)
"""Meaning of the timers where generation and training take turns."""

ASYNC_TIMERS: Sequence[Timer] = (
    Timer(key="exposed_generation", phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT),
    Timer(key="buffer_sampling", phase=Phase.ROLLOUT, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT),
    Timer(
        key="idle/buffer_starvation",
        phase=f"{Phase.ROLLOUT}/buffer_starvation",
        worker=Role.TRAINER,
        kind=SpanKind.EXPOSED_WAIT,
    ),
    Timer(key="weight_sync", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="recompute_kv_scales", phase=Phase.WEIGHT_SYNC, worker=Role.TRAINER),
    Timer(key="idle/validation", phase=Phase.VALIDATE, worker=Role.TRAINER, kind=SpanKind.EXPOSED_WAIT),
    *_SHARED,
)
"""Meaning of the timers where they overlap. `idle/refit_bubble` holds two of these and is not booked again."""

STEP_KEY = "Total step time"
"""Seconds of one step on the driver's clock."""


def table_key(name: str) -> str | None:
    """Return the timer that a hand-made table calls ``name``: `policy_training`, `total_step_time`, `step`."""
    if name.lower() in ("step", "total", "total step time", "total_step_time", "timing/train/total_step_time"):
        return STEP_KEY
    key = name.removeprefix("timing/train/")
    return key if any(timer.key == key for timer in (*SYNC_TIMERS, *ASYNC_TIMERS)) else None
