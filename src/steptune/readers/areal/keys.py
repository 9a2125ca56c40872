"""AReaL's metrics by canonical name (areal-project/AReaL cbff54d, areal/trainer/ppo/actor.py, stats_logger.py)."""

from collections.abc import Mapping

from steptune.readers.reading import Gauge

TOTAL_KEY = "sum of timeperf/*"
"""Step time: no log prints it, the top-level timers follow one another."""

END_TO_END_KEY = "#End to end# execution time"
TOKENS_KEY = "Average #tokens per batch"
"""As the master worker printed them until 7f03b4b (2026-01-07)."""

PREFIX = "timeperf/"

SERIES: Mapping[str, Gauge] = {
    TOTAL_KEY: Gauge(name="step_time"),
    END_TO_END_KEY: Gauge(name="step_time"),
    "timeperf/e2e": Gauge(name="step_time"),
    TOKENS_KEY: Gauge(name="tokens"),
    "ppo_actor/task_reward/avg": Gauge(name="reward"),
    "rollout/reward": Gauge(name="reward"),
    "ppo_actor/update/entropy/avg": Gauge(name="entropy"),
    "ppo_actor/seq_len/avg": Gauge(name="sequence_mean"),
    "ppo_actor/prompt_len/avg": Gauge(name="prompt_mean"),
    "ppo_actor/no_eos_ratios/avg": Gauge(name="clipped_frac"),
    "ppo_actor/update/grad_norm": Gauge(name="grad_norm"),
    "ppo_actor/update/actor_loss/avg": Gauge(name="loss"),
    "ppo_actor/kl_rewards/avg": Gauge(name="kl_ref"),
    "ppo_actor/update/behave_imp_weight/avg": Gauge(name="is_ratio_mean"),
    "ppo_actor/update/behave_approx_kl/avg": Gauge(name="mismatch_k1"),
    "ppo_actor/update/lr": Gauge(name="lr"),
}
"""`seq_len` counts prompt and completion; `no_eos_ratios` is the share of sequences that end at the limit."""
