"""torchforge's metrics by canonical name (meta-pytorch/torchforge 6e77f0b, apps/grpo/main.py, actors/replay_buffer.py).

`buffer/evict/avg_policy_staleness` is the age of what was thrown away, so it is not the staleness of trained samples.
"""

from collections.abc import Mapping

from steptune.readers.reading import Gauge

TRAINING = "main_perf/continuous_training/"
ROLLOUTS = "main_perf/continuous_rollouts/"
STEP_KEY = TRAINING + "total_duration_avg_s"

SERIES: Mapping[str, Gauge] = {
    STEP_KEY: Gauge(name="step_time"),
    "reward/evaluate_response/avg_reward": Gauge(name="reward"),
    "episode/avg_response_tokens": Gauge(name="completion_mean"),
    "generator/generate/avg_tokens_generated": Gauge(name="completion_mean"),
    "episode/max_response_tokens": Gauge(name="completion_max"),
    "episode/avg_prompt_tokens": Gauge(name="prompt_mean"),
    "buffer/sample/avg_sampled_policy_age": Gauge(name="staleness_mean"),
    "buffer/evict/sum_episodes_evicted": Gauge(name="evicted"),
    "buffer/add/count_episodes_added": Gauge(name="added"),
    "grpo_loss/total_loss": Gauge(name="loss"),
    "rl_trainer/avg_loss": Gauge(name="loss"),
    "grpo_loss/kl_divergence_mean": Gauge(name="kl_ref"),
    "rl_trainer_perf/step/memory_peak_max_gb": Gauge(name="memory_allocated_gib"),
    "rl_trainer/learning_rate": Gauge(name="lr"),
}
"""torchforge divides memory by 1024**3 and calls it gb."""
