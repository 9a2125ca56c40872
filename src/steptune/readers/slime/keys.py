"""slime's metrics by canonical name.

`rollout/rewards` is the reward after normalisation within the group, about 1e-9 in the mean: no reward. It is
`raw_reward` that tells whether the model learns.
"""

from collections.abc import Mapping

from steptune.readers.reading import Gauge

STEP_KEY = "perf/step_time"
OLD_STEP_KEY = "perf/total_train_time"
"""Name of the step time until 2025-10-30 (slime 2e27587)."""

SERIES: Mapping[str, Gauge] = {
    STEP_KEY: Gauge(name="step_time"),
    OLD_STEP_KEY: Gauge(name="step_time"),
    "rollout/raw_reward": Gauge(name="reward"),
    "rollout/raw_reward_trajectory_mean": Gauge(name="reward"),
    "train/entropy_loss": Gauge(name="entropy"),
    "rollout/response_len/mean": Gauge(name="completion_mean"),
    "rollout/response_lengths": Gauge(name="completion_mean"),
    "rollout/response_len/max": Gauge(name="completion_max"),
    "rollout/truncated_ratio": Gauge(name="clipped_frac"),
    "rollout/truncated": Gauge(name="clipped_frac"),
    "perf/tokens_per_gpu_per_sec": Gauge(name="tokens_per_device_s"),
    "perf/effective_tokens_per_gpu_per_sec": Gauge(name="effective_tokens_per_device_s"),
    "train/grad_norm": Gauge(name="grad_norm"),
    "train/loss": Gauge(name="loss"),
    "train/kl_loss": Gauge(name="kl_ref"),
    "train/train_rollout_logprob_abs_diff": Gauge(name="mismatch_mean_abs"),
    "train/tis": Gauge(name="is_ratio_mean"),
    "train/lr-pg_0": Gauge(name="lr"),
}
