"""OpenRLHF's metrics by canonical name (OpenRLHF 3c3be62, trainer/ppo_trainer.py, trainer/ray/ppo_actor.py).

`vllm_kl` is the mean of rollout minus old log-probs, a k1; `rollout/` statistics are over whole samples, the bare ones
over micro-batches. Trackers prefix every key with `train/`.
"""

from collections.abc import Mapping

from steptune.readers.reading import Gauge

STEP_KEY = "timing/step_total"
BAR_KEY = "Episode s/it"
PREFIX = "timing/"

BAR_NAMES: Mapping[str, str] = {
    **{name: name for name in ("policy_loss", "critic_loss", "response_length", "total_length", "values")},
    **{"act_loss": "policy_loss", "pg": "policy_loss", "reward": "reward", "rm": "reward", "return": "return"},
    **{"ret": "return", "gen_len": "response_length", "glen": "response_length", "tot_len": "total_length"},
    **{"tlen": "total_length", "kl": "kl", "act_lr": "actor_lr", "ent_loss": "entropy_loss"},
}
"""Names behind the bars, of three generations, the long ones first, and the keys that they stand for."""

SERIES: Mapping[str, Gauge] = {
    STEP_KEY: Gauge(name="step_time"),
    BAR_KEY: Gauge(name="step_time", is_derived=True),
    "rollout/reward_mean": Gauge(name="reward"),
    "reward": Gauge(name="reward"),
    "rollout/reward_std": Gauge(name="reward_std"),
    "group_reward_std": Gauge(name="group_reward_std"),
    "entropy_loss": Gauge(name="entropy"),
    "rollout/response_length_mean": Gauge(name="completion_mean"),
    "response_length": Gauge(name="completion_mean"),
    "rollout/truncated_rate": Gauge(name="clipped_frac"),
    "actor_grad_norm": Gauge(name="grad_norm"),
    "policy_loss": Gauge(name="loss"),
    "kl": Gauge(name="kl_ref"),
    "vllm_kl": Gauge(name="mismatch_k1"),
    "actor_lr": Gauge(name="lr"),
}
