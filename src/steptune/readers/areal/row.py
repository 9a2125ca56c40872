"""The row of AReaL in the table of frameworks."""

import re

from steptune.readers.areal.keys import SERIES
from steptune.readers.areal.profile import to_reading
from steptune.readers.areal.steps import is_mark, read_steps
from steptune.readers.reading import FrameworkReader

_OWN_KEY = re.compile(r"timeperf/|ppo_actor/|ppo_critic/")
_OWN_SETTING = re.compile(
    r"(?:.*\.)?allocation_mode|(?:rollout\.)?max_(?:concurrent_rollouts|head_offpolicyness)|gconfig\.\w+|(?:actor\.|ref\.)?"
    r"mb_spec\.\w+|rollout\.(?:backend|consumer_batch_size|pause_grace_period)|actor\.(?:backend|use_decoupled_loss"
    r"|recompute_logprob|ppo_n_minibatches|prox_logp_method|weight_update_mode)|train_dataset\.(?:batch_size|max_length)"
    r"|cluster\.(?:n_nodes|n_gpus_per_node|fileroot)|total_train_(?:steps|epochs)"
)

ROW = FrameworkReader(
    name="areal",
    wanted=(b"Train step ", b"#End to end#", b"timeperf/", b"ppo_actor/", b"rollout/", "│".encode()),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.fullmatch(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="a stats table with `timeperf/rollout` and `timeperf/train_step`",
    series=SERIES,
    version=re.compile(r"\bareal(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trace_needles=(b"areal", b"realhf"),
    traces=r"\b(?:areal|realhf)[/.](?:engine|trainer|api|utils|core|infra|scheduler|launcher|workflow|system|impl"
    r"|experimental|dataset|reward|platforms)\b"
    r"|\binclusionai/areal[\w.-]{0,40}:",
    fact_needles=(b"areal==", b"AReaL"),
)
