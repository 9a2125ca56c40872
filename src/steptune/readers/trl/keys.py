"""TRL's metrics by canonical name, over three generations of its log.

Until 9f3702f (2025-04-01) the length is `completion_length`, then `completions/mean_length`; Unsloth prints both. Until
transformers 5 values are numbers, then quoted texts of four digits. Metrics files prefix keys with `train/`. Profiling
keys name the trainer's class: `profiling/Time taken: GRPOTrainer.vLLM.generate` is `profiling/vLLM.generate` here.
The PPO, RLOO and online-DPO trainers of old name theirs after `objective/`, `policy/`, `loss/` and `val/`; there the
entropy under `objective/` is a sum over the answer, and `eps` a rate rounded to whole episodes a second.
Read in huggingface/trl f2cd577 and its history, trl/trainer/grpo_trainer.py, trl/experimental/async_grpo.
"""

import re
from collections.abc import Mapping

from steptune.readers.reading import Gauge
from steptune.readers.trl.elapsed import ELAPSED_KEY, SINCE_START_KEY
from steptune.readers.trl.swift import MEAN_STEP_KEY

STEP_KEY = "step_time"
"""Seconds of the `training_step` calls of one optimizer step, generation included; without optimizer step, data loading
and checkpoints. Since 5de62b0 (2025-11-13)."""

BAR_KEY = "s/it"
"""Seconds per optimizer step by the progress bar."""

FORWARD_KEY = "fwd"
BACKWARD_KEY = "bwd"
"""DeepSpeed's `time (ms)` of one optimizer step, in seconds here."""

SERIES: Mapping[str, Gauge] = {
    STEP_KEY: Gauge(name="step_time"),
    ELAPSED_KEY: Gauge(name="step_time", is_derived=True),
    BAR_KEY: Gauge(name="step_time", is_derived=True),
    SINCE_START_KEY: Gauge(name="step_time", is_derived=True),
    MEAN_STEP_KEY: Gauge(name="step_time", is_derived=True),
    "reward": Gauge(name="reward"),
    "objective/scores": Gauge(name="reward"),
    "objective/kl": Gauge(name="kl_ref"),
    "policy/entropy_avg": Gauge(name="entropy"),
    "loss/policy_avg": Gauge(name="loss"),
    "reward_std": Gauge(name="reward_std"),
    "frac_reward_zero_std": Gauge(name="zero_std_frac"),
    "entropy": Gauge(name="entropy"),
    "entropy/mean": Gauge(name="entropy"),
    "completions/mean_length": Gauge(name="completion_mean"),
    "completion_length": Gauge(name="completion_mean"),
    "completions/max_length": Gauge(name="completion_max"),
    "completions/clipped_ratio": Gauge(name="clipped_frac"),
    "response_clip_ratio": Gauge(name="clipped_frac"),
    "grad_norm": Gauge(name="grad_norm"),
    "loss": Gauge(name="loss"),
    "kl": Gauge(name="kl_ref"),
    "sampling/sampling_logp_difference/mean": Gauge(name="mismatch_mean_abs"),
    "sampling/importance_sampling_ratio/mean": Gauge(name="is_ratio_mean"),
    "learning_rate": Gauge(name="lr"),
    "lr": Gauge(name="lr"),
}

_PROFILING = re.compile(r"(?:train/)?profiling/Time taken: \w+\.(?P<name>.+)")


def normal_key(key: str) -> str:
    """Return the console's spelling of a key from a metrics file.

    >>> normal_key("train/completions/mean_length"), normal_key("profiling/Time taken: GRPOTrainer.sync_weights")
    ('completions/mean_length', 'profiling/sync_weights')
    """
    timed = _PROFILING.fullmatch(key)
    return f"profiling/{timed['name']}" if timed else key.removeprefix("train/")
