"""The row of TRL in the table of frameworks; Unsloth and open-r1 drive the same trainer and print like it."""

import re

from steptune.readers.reading import FrameworkReader
from steptune.readers.trl.keys import SERIES, normal_key
from steptune.readers.trl.profile import to_reading
from steptune.readers.trl.steps import is_mark, read_steps
from steptune.readers.trl.swift import mean_step

_OWN_KEY = re.compile(
    r"(?:train/)?(?:completions/(?:mean|min|max)_(?:terminated_)?length|completions/clipped_ratio|frac_reward_zero_std"
    r"|sampling/(?:sampling_logp_difference|importance_sampling_ratio)/|clip_ratio/(?:low|high|region)_m"
    r"|profiling/Time taken: |rewards/\w+/(?:mean|std)$|mean_token_accuracy$"
    r"|rewards/(?:chosen|rejected|margins|accuracies)$|logps/(?:chosen|rejected)$"
    r"|objective/(?:rlhf_reward|non_score_reward|scores)$|(?:policy|val)/(?:clipfrac|approxkl)_avg$|val/num_eos_tokens$"
    r"|ppo/(?:mean_(?:scores|non_score_reward)|std_scores|loss/(?:policy|value|total)|policy/(?:approxkl|clipfrac))$)"
)
_OWN_SETTING = re.compile(
    r"per_device_(?:train|eval)_batch_size|num_generations|steps_per_generation|generation_batch_size|vllm_mode"
    r"|vllm_(?:gpu_memory_utilization|tensor_parallel_size|enable_sleep_mode|max_model_length|importance_sampling_\w+)"
    r"|use_vllm|max_completion_length|scale_rewards|reward_funcs|rlhf_type|tuner_backend|template_backend|external_plugins"
    r"|fast_inference|max_lora_rank|load_in_4bit|unsloth_\w+|env\.UNSLOTH_\w+"
)
_SHARED_KEY = re.compile(
    r"max_prompt_length|gradient_accumulation_steps|env\.ACCELERATE_\w+"
    r"|(?:train/)?(?:token_acc|grad_norm|learning_rate|train_speed\((?:iter/s|s/it)\)|loss|percentage)"
)
"""What Hugging Face's trainer names for every method and what other frameworks took over."""

ROW = FrameworkReader(
    name="trl",
    wanted=(
        *(b"{%b" % (q + b"loss" + q) for q in (b"'", b'"')),
        *(q + b"epoch" + q for q in (b"'", b'"')),
        b"s/it",
        b"it/s",
        b"time (ms) |",
        b"Training Loss",
        b"consumed samples: ",
    ),
    wanted_at_edges=(
        *(q + name for name in (b"reward", b"completion", b"clip_ratio", b"epoch") for q in (b"'", b'"')),
        *(b"\t", b" | ", b", Epoch "),
    ),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.fullmatch(key) is not None,
    shares_key=lambda key: _SHARED_KEY.fullmatch(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`{'loss': ..., 'step_time': ...}`, or DeepSpeed's `time (ms) | fwd: ...` beside the progress bar",
    series=SERIES,
    normal_key=normal_key,
    derived=mean_step,
    version=re.compile(
        r"\btrl(?:==|\s+version:?\s+|:\s+|\s+)v?(\d+\.\d+\.\d+(?:\.?(?:dev|rc|post)\d*)?)", re.IGNORECASE
    ),
    trace_needles=(
        b"trl/",
        b"trl.",
        b"trl ",
        b"GRPOTrainer",
        b"RLOOTrainer",
        b"OnlineDPOTrainer",
        b"open_r1",
        b"swift",
    ),
    traces=r"\btrl[/.](?:trainer|experimental|extras|scripts|models|generation)\b|\bUnsloth(?:GRPO|RLOO)Trainer\b"
    r"|\b(?:GRPO|RLOO|OnlineDPO)Trainer\.|\bopen_r1[/.](?:grpo|trainers)\b|\bswift[/.](?:trainers|rlhf_trainers)[/.]\S{0,80}grpo"
    r"|\btrl (?:grpo|rloo|vllm-serve)\b|\bswift (?:rlhf|rollout)\b",
    fact_needles=(b"trl", b"TRL"),
)
