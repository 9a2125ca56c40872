"""SkyRL's metrics by canonical name (NovaSky-AI/SkyRL a956457, skyrl/train/trainer.py, fully_async_trainer.py)."""

from collections.abc import Mapping

from steptune.readers.formats.run_bar import RUN_BAR_KEY
from steptune.readers.reading import Gauge

STEP_KEY = "timing/step"
PREFIX = "timing/"

SERIES: Mapping[str, Gauge] = {
    STEP_KEY: Gauge(name="step_time"),
    RUN_BAR_KEY: Gauge(name="step_time", is_derived=True),
    "reward/avg_raw_reward": Gauge(name="reward"),
    "reward/avg_final_rewards": Gauge(name="reward"),
    "loss/avg_final_rewards": Gauge(name="reward"),
    "policy/policy_entropy": Gauge(name="entropy"),
    "generate/avg_num_tokens": Gauge(name="completion_mean"),
    "policy/response_length": Gauge(name="completion_mean"),
    "generate/max_num_tokens": Gauge(name="completion_max"),
    "generate/batch_padded_seq_len": Gauge(name="padded_len"),
    "batch_padded_seq_len": Gauge(name="padded_len"),
    "trainer/tokens_per_second_per_gpu": Gauge(name="train_tokens_per_device_s"),
    "policy/raw_grad_norm": Gauge(name="grad_norm"),
    "policy/grad_norm": Gauge(name="grad_norm"),
    "policy/policy_loss": Gauge(name="loss"),
    "policy/final_loss": Gauge(name="loss"),
    "policy/policy_kl": Gauge(name="kl_ref"),
    "policy/rollout_train_logprobs_abs_diff_mean": Gauge(name="mismatch_mean_abs"),
    "async/staleness_mean": Gauge(name="staleness_mean"),
    "policy/policy_lr": Gauge(name="lr"),
}
"""`trainer/tokens_per_second_per_gpu` divides by the training phase, not by the step, so it has a name of its own."""
