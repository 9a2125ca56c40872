"""The row of slime (and miles, which grew out of it) in the table of frameworks."""

import re

from steptune.readers.formats.table_names import timer_named
from steptune.readers.reading import FrameworkReader
from steptune.readers.slime.keys import SERIES, STEP_KEY
from steptune.readers.slime.profile import TIMER_KEYS, to_reading
from steptune.readers.slime.steps import is_mark, read_steps

_OWN_KEY = re.compile(
    r"perf/(?:step_time|train_wait_time|train_time|rollout_time|wait_time_ratio|actor_train_|log_probs_t|ref_log_probs_t"
    r"|update_weights_|sleep_time|wake_up_time|(?:effective_)?tokens_per_gpu_per_sec|longest_)"
    r"|rollout/(?:response_len/|raw_reward|truncated_ratio|zero_std/|dynamic_filter/|rollout_log_probs|ref_log_probs)"
    r"|train/(?:train_rollout_logprob_abs_diff|lr-pg_|tis|ois|pg_clipfrac)"
)
_OWN_SETTING = re.compile(
    r"rollout_(?:batch_size|max_(?:response|prompt|context)_len|temperature|num_gpus(?:_per_engine)?|function_path"
    r"|global_dataset)|num_rollout|num_steps_per_rollout|over_sampling_batch_size|sglang_\w+|max_tokens_per_gpu"
    r"|use_dynamic_batch_size|actor_num_(?:nodes|gpus_per_node)|update_weights_interval|use_tis|rm_type|hf_checkpoint"
    r"|custom_(?:rm|generate_function)_path|dynamic_sampling_filter_path|debug_(?:rollout|train)_only|balance_data"
)
"""With underscores; a launch script has dashes."""

ROW = FrameworkReader(
    name="slime",
    wanted=(b"perf/", b"rollout/", b"train/"),
    wanted_at_edges=(b" s, p50 ", b" end (elapsed: "),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.fullmatch(key.replace("-", "_")) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`perf N: {... 'perf/step_time': ...}` of the training actor",
    series=SERIES,
    table_key=lambda name: timer_named(name, step_key=STEP_KEY, keys=TIMER_KEYS, prefix="perf/", suffix="_time"),
    version=re.compile(r"\b(?:slime|miles)(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trainer=re.compile(r"python3?\s+(?:\S*/)?(train_async)\.py"),
    trace_needles=(b"slime", b"miles", b"TrainRayActor", b"SGLangEngine pid="),
    traces=r"\b(?:slime|miles)[/.](?:backends|ray|rollout|utils|router|observability)\b"
    r"|\b(?:slime|miles)_plugins[/.]|\b(?:Megatron|FSDP)TrainRayActor\b|\(SGLangEngine pid="
    r"|\b(?:slimerl|radixark)/(?:slime|miles)[\w.-]{0,40}:"
    r"|\bslime[\w.-]{0,20}/train(?:_async)?\.py\b",
    fact_needles=(b"slime==", b"miles==", b"train_async.py"),
)
