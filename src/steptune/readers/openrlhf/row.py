"""The row of OpenRLHF in the table of frameworks."""

import re

from steptune.readers.formats.table_names import timer_named
from steptune.readers.openrlhf.keys import SERIES, STEP_KEY
from steptune.readers.openrlhf.profile import TIMER_KEYS, to_reading
from steptune.readers.openrlhf.steps import is_mark, read_steps
from steptune.readers.reading import FrameworkReader

_OWN_KEY = re.compile(
    r"(?:train/)?(?:timing/(?:step_total|make_experience|ppo_train|broadcast|generation)$|rollout/(?:truncated_rate"
    r"|response_length_mean|num_samples|reward_mean)$)"
)
_OWN_SETTING = re.compile(
    r"(?:ref|reward|critic|actor)[._]num_(?:nodes|gpus_per_node)|vllm[._](?:num_engines|tensor_parallel_size|enable_sleep"
    r"|sync_backend)|micro_(?:train|rollout)_batch_size|(?:prompt|generate)_max_len|zero_stage|adam_offload|init_kl_coef"
    r"|colocate_(?:actor_ref|critic_reward|all_models)|normalize_reward|num_episodes|ds\.\w+|train\.(?:async_enable"
    r"|colocate_all|partial_rollout_enable|dynamic_batch_enable|num_episodes|async_queue_size)|algo\.\w[\w.]*"
)

ROW = FrameworkReader(
    name="openrlhf",
    wanted=(b"Global step ", b"Episode [", b"Train epoch [", b"openrlhf", b"'timing/", b"'policy_loss"),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.fullmatch(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`Global step N: {... 'timing/step_total': ...}`",
    series=SERIES,
    table_key=lambda name: timer_named(name, step_key=STEP_KEY, keys=TIMER_KEYS, prefix="timing/"),
    normal_key=lambda key: key.removeprefix("train/"),
    version=re.compile(r"\bopenrlhf(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trace_needles=(b"openrlhf", b"ModelRayActor", b"ModelActor"),
    traces=r"\bopenrlhf[/.](?:cli|trainer|models|utils|datasets)\b"
    r"|\b(?:Actor|Critic|Reward|Reference)ModelRayActor\b|\b(?:Policy|Critic|Reward|Reference)ModelActor\b",
    fact_needles=(b"OpenRLHF",),
)
