"""Public configurations that fitted and that ran out of GPU memory: what a memory model is scored on.

Collected and committed before any memory model saw them. Surprise: a text that says *out of memory* is not yet a
case. What main memory, another process, a wrong device, a leak or a software fault explains is left out, each with its
reason in ``memory_excluded.csv``; what decides but is not stated makes a case `weak`.
"""

from enum import StrEnum
from functools import cache

from steptune.core.records import Record
from steptune.published.split import Side, side_of
from steptune.published.table import read_rows


class MemoryOutcome(StrEnum):
    """What became of the configuration."""

    FIT = "fit"
    OUT_OF_MEMORY = "oom"


class MemoryPhase(StrEnum):
    """Where it ran out."""

    LOAD = "load"
    ENGINE_START = "engine_start"
    ROLLOUT = "rollout"
    WAKE_UP = "wake_up"
    LOGPROB = "logprob"
    LOGITS = "logits"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    WEIGHT_SYNC = "weight_sync"
    UNKNOWN = "unknown"


class MemoryLabel(StrEnum):
    """How far the outcome can be trusted to be the configuration's."""

    CLEAR = "clear"
    LATE = "late"
    """Ran for some steps first: growth, or a longer sample came."""
    WEAK = "weak"
    """A setting that decides it is not known."""


class MemoryCase(Record):
    """One configuration and whether its GPUs' memory sufficed.

    Example: ``MemoryCase(id="prime-rl-950", outcome="oom", model="Qwen3-8B", gpu_type="H100", num_gpus=8, ...)``.
    """

    id: str
    outcome: MemoryOutcome
    phase: MemoryPhase | None = None
    """None for what fitted."""
    label: MemoryLabel
    source: str
    framework: str
    stage: str
    """``rl`` without a critic, ``ppo`` with one, ``sft`` or ``dpo``."""
    model: str
    params_billions: float | None = None
    """All parameters, as the model's name or card says."""
    gpu_type: str | None = None
    gpu_memory_gb: float | None = None
    """Of one GPU, as its vendor counts it."""
    num_gpus: int | None = None
    num_train_gpus: int | None = None
    num_rollout_gpus: int | None = None
    placement: str | None = None
    is_lora: bool | None = None
    """Only adapters are trained; the rank may still be unknown."""
    lora_rank: int | None = None
    sharding: str | None = None
    """``fsdp``, ``zero2``, ``zero3`` or ``megatron``."""
    train_tp: int | None = None
    train_pp: int | None = None
    train_cp: int | None = None
    train_ep: int | None = None
    sequence_parallel: int | None = None
    """Ulysses ways."""
    offload: str | None = None
    """``none``, ``optimizer`` or ``params+optimizer``."""
    recompute: str | None = None
    """``none``, ``selective``, ``full``, or ``offload`` of activations."""
    micro_batch: int | None = None
    """Sequences per GPU and pass."""
    max_tokens_per_gpu: int | None = None
    """Token budget of a packed micro-batch."""
    max_prompt_len: int | None = None
    max_response_len: int | None = None
    max_total_len: int | None = None
    group_size: int | None = None
    rollout_tp: int | None = None
    gpu_memory_utilization: float | None = None
    """The engine's share of a GPU."""
    peak_gib: float | None = None
    """Highest memory of one GPU as the source states it."""
    note: str | None = None

    @property
    def side(self) -> Side:
        """Whether constants may be fitted on it."""
        return side_of(self.source)

    @property
    def worst_len(self) -> int | None:
        """Tokens of the longest sequence the settings allow."""
        if self.max_total_len is not None:
            return self.max_total_len
        if self.max_prompt_len is None or self.max_response_len is None:
            return None
        return self.max_prompt_len + self.max_response_len


class ExcludedPost(Record):
    """A post that was read and left out: ``ExcludedPost(source="https://...", reason="main memory of a worker")``."""

    source: str
    reason: str


@cache
def memory_cases() -> tuple[MemoryCase, ...]:
    """Return every case, in the table's order."""
    rows = read_rows("memory_cases.csv")
    return tuple(MemoryCase.model_validate({name: text for name, text in row.items() if text}) for row in rows)


@cache
def excluded_posts() -> tuple[ExcludedPost, ...]:
    """Return what was left out, with the reasons."""
    return tuple(map(ExcludedPost.model_validate, read_rows("memory_excluded.csv")))
