"""NeMo RL names a metric one way on the console and another in its loggers; the readers use the console's names.

Read in NeMo RL 7ea279a, nemo_rl/algorithms/grpo.py (`log_metrics(..., prefix=...)`) and algorithms/utils.py
(`print_performance_metrics`).
"""

_CONSOLE_NAMES = {
    "timing/train/total_step_time": "Total step time",
    "train/loss": "Loss",
    "train/reward": "Avg Reward",
    "train/mean_gen_tokens_per_sample": "Mean Generation Length",
    "train/gen_kl_error": "Generation KL Error",
    "train/avg_trajectory_age": "Avg Trajectory Age",
    "train/buffer_size": "Buffer Size",
    "performance/tokens_per_sec": "E2E (Tokens/sec)",
    "performance/tokens_per_sec_per_gpu": "E2E (Tokens/sec/gpu)",
    "performance/samples_per_sec": "E2E (Samples/sec)",
    "performance/samples_per_sec_per_gpu": "E2E (Samples/sec/gpu)",
    "performance/training_worker_group_tokens_per_sec": "Training Worker Group (Tokens/sec)",
    "performance/training_worker_group_tokens_per_sec_per_gpu": "Training Worker Group (Tokens/sec/gpu)",
    "performance/generation_tokens_per_sec": "Generation Worker Group (Tokens/sec)",
    "performance/generation_tokens_per_sec_per_gpu": "Generation Worker Group (Tokens/sec/gpu)",
}
_PREFIXES = ("timing/train/", "train/", "performance/")


def console_key(key: str) -> str:
    """Return the console's name of a logger's key; without one, the key without its group.

    >>> console_key("timing/train/policy_training"), console_key("train/token_mult_prob_error")
    ('policy_training', 'token_mult_prob_error')
    """
    if named := _CONSOLE_NAMES.get(key):
        return named
    return next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)
