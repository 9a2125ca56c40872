"""One generated step of every framework's console format, for `reader_speed.py`: the keys are real, the numbers random.

verl's own, 6 kB on one line, is in `reader_speed.py`. SkyRL prints a step on forty rows, AReaL on a box of a dozen;
these have the most lines a reader must look at and are the slowest.
"""

import random
from collections.abc import Callable

BOX_COLUMNS = 96
"""Width of AReaL's table."""

_TRL = (
    *("loss", "grad_norm", "learning_rate", "num_tokens", "reward", "reward_std", "frac_reward_zero_std", "entropy"),
    *(f"completions/{name}" for name in ("mean_length", "min_length", "max_length", "clipped_ratio")),
    *(f"completions/{name}_terminated_length" for name in ("mean", "min", "max")),
    *(f"rewards/{name}_reward/{part}" for name in ("accuracy", "format") for part in ("mean", "std")),
    *(f"clip_ratio/{name}" for name in ("low_mean", "low_min", "high_mean", "high_max", "region_mean")),
    *("step_time", "epoch"),
)
_SLIME = {
    "rollout": ("log_probs", "ref_log_probs", "advantages", "returns", "rewards", "rollout_log_probs", "total_lengths"),
    "step": (
        *("loss", "pg_loss", "entropy_loss", "pg_clipfrac", "ppo_kl", "kl_loss", "grad_norm", "lr-pg_0", "lr-pg_1"),
        *("train_rollout_logprob_abs_diff", "step"),
    ),
    "perf": (
        *("train_wait_time", "data_preprocess_time", "ref_log_probs_time", "log_probs_time", "actor_train_time"),
        *("train_time", "update_weights_time", "step_time", "actor_train_tflops", "log_probs_tflops"),
        *("wait_time_ratio", "sleep_time", "wake_up_time"),
    ),
}
_SLIME_ROLLOUT = (
    *(f"rollout/response_len/{part}" for part in ("mean", "median", "max", "min")),
    *("rollout/raw_reward", "rollout/truncated_ratio", "rollout/zero_std/count_0.0", "rollout/repetition_frac"),
    *("perf/rollout_time", "perf/tokens_per_gpu_per_sec", "perf/longest_sample_tokens_per_sec"),
)
_SKYRL_PHASES = (
    *("generate", "convert_to_training_input", "fwd_logprobs_values_reward", "compute_advantages_and_returns"),
    *("policy_train", "sync_weights", "step"),
)
_SKYRL = (
    *(f"timing/{phase}" for phase in (*_SKYRL_PHASES, "eval")),
    *(f"policy/{name}" for name in ("loss", "entropy", "ppo_clip_ratio", "policy_kl", "final_loss", "grad_norm")),
    *("policy/policy_lr", "policy/rollout_train_logprobs_abs_diff_mean", "policy/rollout_train_logprobs_abs_diff_std"),
    *("reward/avg_pass_at_4", "reward/avg_raw_reward", "reward/mean_positive_reward", "loss/avg_final_rewards"),
    *(f"generate/{name}" for name in ("avg_num_tokens", "max_num_tokens", "min_num_tokens", "std_num_tokens")),
    *("generate/batch_num_seq", "generate/batch_padded_seq_len", "trainer/epoch"),
)
_OPENRLHF = (
    *("policy_loss", "actor_lr", "kl", "reward", "return", "response_length", "total_length", "num_samples"),
    *(f"timing/{name}" for name in ("make_experience", "ppo_train", "broadcast", "generation", "step_total")),
)
_AREAL = (
    *(f"timeperf/{name}" for name in ("rollout", "train_step", "update_weights", "recompute_logp", "save", "eval")),
    *("timeperf/compute_advantages", "ppo_actor/update/lr", "ppo_actor/update/grad_norm", "rollout/reward"),
    *(f"ppo_actor/update/{name}" for name in ("entropy/avg", "entropy/max", "loss/avg", "kl/avg")),
    *("ppo_actor/update/importance_weight/avg", "ppo_actor/update/importance_weight/max", "rollout/seq_len/avg", "n"),
)
_FORGE = (
    *("buffer/add/count_episodes_added", "buffer/evict/sum_episodes_evicted", "buffer/sample/avg_sampled_policy_age"),
    *("episode/avg_prompt_tokens", "episode/avg_response_tokens", "episode/max_response_tokens"),
    *("generator_perf/generate/total_duration_avg_s", "grpo_loss/kl_divergence_mean", "grpo_loss/total_loss"),
    *("main/continuous_rollouts/count_rollout_iterations", "main_perf/continuous_training/total_duration_avg_s"),
    *(
        f"main_perf/continuous_training/{name}/duration_avg_s"
        for name in ("train_step", "push_weights", "waiting_for_buffer")
    ),
    *("reward/evaluate_response/avg_reward", "rl_trainer/avg_loss", "rl_trainer_perf/step/total_duration_avg_s"),
)
_NEMO = (
    *("policy_training", "generation", "policy_and_reference_logprobs", "prepare_for_generation/total"),
    *("prepare_for_generation/transfer_and_update_weights", "logprob_inference_prep", "reward_calculation"),
    *("training_prep", "data_processing"),
)


def trl(rng: random.Random, step: int) -> str:
    """A bar that was redrawn and the dict behind it, with quoted values."""
    bars = (f" {k}%|##   | {step}/100000 [10:0{k}<10:53:21, 60.32s/it]" for k in range(3))
    return "\r".join(bars) + "{" + ", ".join(f"'{key}': '{rng.random() * 10:.4g}'" for key in _TRL) + "}"


def slime(rng: random.Random, step: int) -> str:
    """The rollout manager's record and the trainer's three."""
    manager = "(RolloutManager pid=301) [2026-06-29 12:28:30] rollout.py:1244 - "
    actor = "(MegatronTrainRayActor pid=303) [2026-06-29 12:28:30] data.py:244 - "
    records = [f"{manager}perf {step}: { {key: rng.random() * 100 for key in _SLIME_ROLLOUT} }"]
    for kind, names in _SLIME.items():
        prefix = "train" if kind == "step" else kind
        records.append(f"{actor}{kind} {step}: { {f'{prefix}/{name}': rng.random() * 9 for name in names} }")
    return "\n".join(records)


def prime_rl(rng: random.Random, step: int) -> str:
    """The orchestrator's line and the trainer's."""
    return (
        f"04:00:13 SUCCESS Step {step} | 15m 56s | Reward {rng.random():.4f} | Trainable 64/64 (100.0%) | Turns 25.6 | "
        f"Branches 1.1 | Max Off-Policy 0 | Error 0.0% | Cancelled 0.0% | Truncation 0.0%\n"
        f"04:00:41 SUCCESS Step {step} |   27.9s | Loss {rng.random():.4f} | Entropy 0.2105 | Mismatch KL 0.0006 | "
        "Grad. Norm 0.0680 | LR 1.00e-06 | Throughput 18591 tokens/s | MFU 31.4% | Peak Mem. 61.2 GiB"
    )


def skyrl(rng: random.Random, step: int) -> str:
    """A line for each phase that ends, and a dict with one metric a row."""
    ray = "\x1b[36m(skyrl_entrypoint pid=7)\x1b[0m "
    head = f"{ray}2026-06-15 13:24:42.955 | INFO     | "
    values = {key: f"{rng.random() * 90:.4f}" for key in _SKYRL}
    ends = [
        f"{head}skyrl.train.trainer:train:220 - Finished: '{phase}', time cost: {values[f'timing/{phase}'][:-2]}s"
        for phase in _SKYRL_PHASES
    ]
    pairs = [*(f"'{key}': '{value}'" for key, value in values.items()), f"'trainer/global_step': {step}"]
    rows = [f"{ray} {pair}," for pair in pairs[1:-1]]
    first, last = f"{ray}{{{pairs[0]},", f"{ray} {pairs[-1]}}}"
    return "\n".join([*ends, f"{head}skyrl_train.utils.tracking:log:70 - Step {step}:", first, *rows, last])


def openrlhf(rng: random.Random, step: int) -> str:
    """The dict of the PPO trainer."""
    pairs = {key: rng.random() for key in _OPENRLHF} | {"global_step": step}
    return f"\x1b[36m(PPOTrainer pid=7)\x1b[0m 2026-01-02 12:00:00 INFO ✨ Global step {step}: {pairs}"


def areal(rng: random.Random, step: int) -> str:
    """A box of two columns."""
    rows = [
        f"│ {left:<30} │ {rng.random() * 9:.4e} │ {right:<30} │ {rng.random() * 9:.4e} │"
        for left, right in zip(_AREAL[::2], _AREAL[1::2], strict=True)
    ]
    head = f"20260101-12:00:00.123 StatsLogger INFO: Epoch 1/1 Step {step}/100000 Train step {step}/100000 done."
    return "\n".join([head, "╭" + "─" * BOX_COLUMNS + "╮", *rows, "╰" + "─" * BOX_COLUMNS + "╯"])


def torchforge(rng: random.Random, step: int) -> str:
    """A block with one metric a row."""
    rows = (f"  {key}: {rng.random()}" for key in _FORGE)
    return "\n".join([f"=== [global_reduce] - METRICS STEP {step} ===", *rows, "=" * 30])


def nemo_rl(rng: random.Random, step: int) -> str:
    """Banner, results, timers."""
    timers = (f"  • {name}: {rng.random() * 90:.2f}s ({rng.random() * 30:.1f}%)" for name in _NEMO)
    return "\n".join(
        [
            f"========================= Step {step}/100000 =========================",
            "▶ Preparing batch...",
            "",
            "📊 Training Results:",
            f"  • Loss: {rng.random():.4f}",
            f"  • Generation KL Error: {rng.random() / 1000:.4f}",
            f"  • Avg Reward: {rng.random():.4f}",
            f"  • Mean Generation Length: {rng.random() * 4000:.4f}",
            "",
            "⏱️  Timing:",
            f"  • Total step time: {300 + rng.random():.2f}s",
            *timers,
        ]
    )


FORMATS: dict[str, Callable[[random.Random, int], str]] = {
    "nemo_rl": nemo_rl,
    "trl": trl,
    "prime_rl": prime_rl,
    "slime": slime,
    "skyrl": skyrl,
    "openrlhf": openrlhf,
    "areal": areal,
    "torchforge": torchforge,
}
"""Writer of one step by framework; each must be recognised as that framework, which `reader_speed.py` checks."""
