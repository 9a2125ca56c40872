"""The row of SkyRL in the table of frameworks."""

import re

from steptune.readers.formats.table_names import timer_named
from steptune.readers.reading import FrameworkReader
from steptune.readers.skyrl.keys import SERIES, STEP_KEY
from steptune.readers.skyrl.profile import TIMER_KEYS, to_reading
from steptune.readers.skyrl.steps import PHASES, is_mark, read_steps

_OWN_KEY = re.compile(
    r"timing/(?:step$|generate$|policy_train|critic_train|train_critic_and_policy|fwd_logprobs_values_reward|sync_weights"
    r"|compute_advantages_and_returns|wait_for_generation_buffer|run_training|convert_to_training_input)"
    r"|async/staleness_|generate/(?:batch_padded_seq_len|avg_num_tokens|batch_num_seq)|reward/avg_(?:raw_reward|pass_at_)"
    r"|policy/rollout_train_logprobs_abs_diff_"
)
_OWN_SETTING = re.compile(
    r"trainer\.(?:placement\.|algorithm\.|policy\.|ref\.|fully_async\.|micro_train_batch_size_per_gpu"
    r"|micro_forward_batch_size_per_gpu|policy_mini_batch_size|train_batch_size|max_tokens_per_microbatch|eval_before_train)"
    r"|generator\.(?:inference_engine\.|sampling_params\.|n_samples_per_prompt|num_inference_engines|step_wise)"
    r"|environment\.(?:env_class|skyrl_gym\.)|micro_(?:train|forward)_batch_size_per_gpu$|policy_mini_batch_size$"
)

ROW = FrameworkReader(
    name="skyrl",
    wanted=(
        b"timing/",
        b"time cost: ",
        b"inished '",
        b"'policy/",
        b"'reward/",
        b"'generate/",
        b"'trainer/",
        b"'async/",
        b" - Step ",
    ),
    wanted_at_edges=(b"reward/", b"batch_", b"avg_final_rewards", b"skyrl", b"SKYRL_", b"| `"),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.match(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`'timing/step': '...'` of the console tracker, or `Finished: 'step', time cost: ...s`",
    series=SERIES,
    table_key=lambda name: timer_named(name, step_key=STEP_KEY, keys=TIMER_KEYS, prefix="timing/"),
    version=re.compile(r"\bskyrl(?:[-_]train)?(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trace_needles=(b"skyrl", b"WorkerBase", b"VLLMInferenceEngine", b"inished"),
    traces=r"\bskyrl(?:_train|_gym|_agent|[/.](?:train|backends|tinker))\b[/.]"
    r"|\(skyrl_entrypoint pid=|\bskyrl_entrypoint\("
    r"|\b(?:FSDP|Megatron|DeepSpeed)(?:Policy|Ref|Critic)WorkerBase\b|\bAsyncVLLMInferenceEngine\b"
    r"|\bnovaskyai/skyrl[\w.-]{0,40}:|\b[Ff]inished:? '(?:" + "|".join(PHASES) + r")'",
    fact_needles=tuple(
        name + end for name in (b"skyrl", b"skyrl-train", b"skyrl_train") for end in (b"==", b":", b" v")
    ),
)
