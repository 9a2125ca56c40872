"""The row of slime (and miles, which grew out of it) in the table of frameworks."""

import re

from steptune.readers.reading import FrameworkReader
from steptune.readers.slime.keys import SERIES
from steptune.readers.slime.profile import to_reading
from steptune.readers.slime.steps import is_mark, read_steps

_OWN_KEY = re.compile(
    r"perf/(?:step_time|train_wait_time|train_time|rollout_time|wait_time_ratio|actor_train_|log_probs_t|ref_log_probs_t"
    r"|update_weights_|sleep_time|wake_up_time|(?:effective_)?tokens_per_gpu_per_sec|longest_)"
    r"|rollout/(?:response_len/|raw_reward|truncated_ratio|zero_std/|dynamic_filter/|rollout_log_probs|ref_log_probs)"
    r"|train/(?:train_rollout_logprob_abs_diff|lr-pg_|tis|ois|pg_clipfrac)"
)
_OWN_SETTING = re.compile(
    r"(?:num|rollout|sglang|over|use_(?:tis|dynamic_batch_size|rollout)|max_tokens_per_gpu|actor_num)[-_]"
    r"(?:rollout|batch_size|max_response_len|temperature|num_gpus_per_engine|mem_fraction_static|sampling_batch_size"
    r"|num_nodes|num_gpus_per_node|nodes|gpus_per_node|server_concurrency)$"
    r"|(?:max[-_]tokens[-_]per[-_]gpu|use[-_]dynamic[-_]batch[-_]size|update[-_]weights[-_]interval|use[-_]tis)$"
)

ROW = FrameworkReader(
    name="slime",
    wanted=(b"perf/", b"rollout/", b"train/"),
    wanted_at_edges=(b" s, p50 ",),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.match(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`perf N: {... 'perf/step_time': ...}` of the training actor",
    series=SERIES,
    version=re.compile(r"\b(?:slime|miles)(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trainer=re.compile(r"python3?\s+(?:\S*/)?(train_async)\.py"),
    fact_needles=(b"slime==", b"miles==", b"train_async.py"),
)
