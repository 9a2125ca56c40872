"""The row of NeMo RL in the table of frameworks: names, marks and what its metrics mean."""

import re

from steptune.readers.nemo_rl.keys import console_key
from steptune.readers.nemo_rl.profile import to_reading
from steptune.readers.nemo_rl.steps import is_mark, read_steps
from steptune.readers.nemo_rl.timers import STEP_KEY, table_key
from steptune.readers.reading import FrameworkReader, Gauge

_OWN_KEY = re.compile(
    r"timing/train/|timing/validation/|performance/|efficiency/"
    r"|train/(?:token_mult_prob_error|gen_kl_error|global_valid_(?:toks|seqs)|sampling_importance_ratio|probs_ratio)"
)
_OWN_SETTING = re.compile(
    r"grpo\.(?:num_prompts_per_step|num_generations_per_prompt|max_num_steps|val_period|async_grpo|overlong_filtering)"
    r"|loss_fn\.(?:reference_policy_kl_|ratio_clip_|use_importance_sampling|token_level_loss|sequence_level)"
    r"|policy\.(?:generation\.|dtensor_cfg\.|megatron_cfg\.|sequence_packing\.|dynamic_batching\.|train_global_batch_size"
    r"|train_micro_batch_size|logprob_batch_size|max_total_sequence_length)"
    r"|(?:generation\.)?vllm_cfg\.|dtensor_cfg\.|megatron_cfg\.|sequence_packing\.(?:train|logprob)_mb_tokens"
)
"""Short names without `policy.` come from pasted fragments."""

ROW = FrameworkReader(
    name="nemo_rl",
    wanted=("•".encode(), b"= Step ", b"Results:", b"/sec"),
    wanted_at_edges=(
        b"step time",
        b"generation",
        b"_prep:",
        b"_calculation:",
        b"data_processing:",
        b"buffer_sampling:",
        b"policy_training",
        b"logprob",
        b"weight_sync",
        b"Avg Reward",
        b"Loss:",
        b"${policy.",
        b"nemo_rl",
    ),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.match(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`• Total step time: ...s`",
    series={
        STEP_KEY: Gauge(name="step_time"),
        "Avg Reward": Gauge(name="reward"),
        "Avg Total Reward": Gauge(name="reward"),
        "Mean Generation Length": Gauge(name="completion_mean"),
        "max_gen_tokens_per_sample": Gauge(name="completion_max"),
        "mean_prompt_length": Gauge(name="prompt_mean"),
        "truncation_rate": Gauge(name="clipped_frac"),
        "total_num_tokens": Gauge(name="tokens"),
        "E2E (Tokens/sec/gpu)": Gauge(name="tokens_per_device_s"),
        "train_fp_utilization": Gauge(name="mfu"),
        "Training Model Floating Point Utilization": Gauge(name="mfu", scale=0.01),
        "Loss": Gauge(name="loss"),
        "grad_norm": Gauge(name="grad_norm"),
        "approx_entropy": Gauge(name="entropy"),
        "kl_penalty": Gauge(name="kl_ref"),
        "Generation KL Error": Gauge(name="mismatch_k3"),
        "token_mult_prob_error": Gauge(name="mult_prob_error"),
        "sampling_importance_ratio": Gauge(name="is_ratio_mean"),
        "Avg Trajectory Age": Gauge(name="staleness_mean"),
        "dynamic_sampling_num_gen_batches": Gauge(name="gen_batches"),
        "lr": Gauge(name="lr"),
    },
    normal_key=console_key,
    table_key=table_key,
    version=re.compile(r"\bnemo[-_ ]rl(?:==|:\s?| version:? | )v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:dev|rc|post)\d*)?)", re.I),
    trace_needles=(
        b"nemo_rl",
        b"nemo-rl",
        b"examples/run_",
        b"AsyncTrajectory",
        b"PolicyWorker",
        b"GenerationWorker",
        b"ValueWorker",
    ),
    traces=r"\bnemo_rl[/.](?:models|algorithms|utils|distributed|data|environments|experience)\b"
    r"|\b(?:DTensor|Megatron)PolicyWorker(?:V2)?\b|\bVllm(?:Async)?GenerationWorker\b|\bDTensorValueWorker\w*"
    r"|\bAsyncTrajectoryCollector\b|\bexamples/run_(?:grpo|ppo|dpo|sft|rm|distillation)\w{0,40}\.py\b|/nemo-rl/|\bnvidia/nemo-rl:",
    fact_needles=(b"emo-rl", b"emo_rl", b"NeMo RL", b"NeMo-RL"),
)
"""`gen_kl_error` is KL(rollout || trainer), k3 by default (`loss_fn.reference_policy_kl_type`; NeMo RL 7ea279a)."""
