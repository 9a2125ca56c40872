"""The row of prime-rl in the table of frameworks."""

import re

from steptune.readers.prime_rl.keys import SERIES
from steptune.readers.prime_rl.profile import to_reading
from steptune.readers.prime_rl.steps import is_mark, read_steps
from steptune.readers.reading import FrameworkReader

_OWN_KEY = re.compile(
    r"time/(?:wait_for_batch|forward_backward|broadcast_weights|wait_for_policy|load_data|save_ckpt|pack)$"
    r"|off_policy/|mismatch_kl/|kl_ent_ratio/|dispatcher/inflight|perf/(?:throughput_per_gpu|peak_memory)$|progress/rollouts"
)
_OWN_SETTING = re.compile(
    r"orchestrator\.|inference\.(?:model|parallel|vllm|gpu_memory_utilization|deployment)|trainer\.(?:model|optim|data"
    r"|weight_broadcast)\.|max_async_level|async_level|max_off_policy_steps|rollouts_per_example|weight_broadcast\."
)

ROW = FrameworkReader(
    name="prime_rl",
    wanted=(b"SUCCESS Step", b" | Loss", b" | Reward", b"Off-Policy", b"zero_advantage"),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.match(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`SUCCESS Step N | Time: ...s | ...`",
    series=SERIES,
    version=re.compile(r"\bprime[-_]rl(?:==|:\s?| version:? )v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE),
    trace_needles=(b"prime_rl", b"prime-rl", b"uv run "),
    traces=r"\bprime_rl[/.](?:trainer|orchestrator|inference|utils|configs|transport|entrypoints|rl)\b"
    r"|\buv run (?:rl|orchestrator|trainer|inference) @"
    r"|\bprimeintellect/prime-rl[\w.-]{0,60}[:@]",
    fact_needles=(b"prime-rl", b"prime_rl"),
)
