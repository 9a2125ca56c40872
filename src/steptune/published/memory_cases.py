"""Public configurations that fitted and that ran out of GPU memory: what a memory model is scored on.

Collected and committed before any memory model saw them. Surprise: a text that says *out of memory* is not yet a
case. What main memory, another process, a wrong device, a leak or a software fault explains is left out, each with its
reason in ``memory_excluded.csv``; what decides but is not stated makes a case `weak`. The second collection
(``memory_known.csv``) holds what the first one lacked: cases whose source says the whole configuration. The third
(``memory_third.csv``) was labelled when the model was final, so that a share of it is no hindsight; once the model had
learnt from that one, a fourth (``memory_fourth.csv``) took its place.
"""

import hashlib
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


class MemoryCause(StrEnum):
    """Why memory ran out where the size of the job does not explain it."""

    BUG = "bug"
    """A fault of the framework's release, as its thread shows."""
    LAUNCH = "launch"
    """Started in a way its settings do not say."""


class MemoryCase(Record):
    """One configuration and whether its GPUs' memory sufficed.

    Example: ``MemoryCase(id="prime-rl-950", outcome="oom", model="Qwen3-8B", gpu_type="H100", num_gpus=8, ...)``.
    """

    id: str
    outcome: MemoryOutcome
    phase: MemoryPhase | None = None
    """None for what fitted."""
    label: MemoryLabel
    cause: MemoryCause | None = None
    """None where the configuration explains the outcome; scored apart otherwise."""
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
    weights: str | None = None
    """As stored: ``fp32``, ``mixed`` (16 bits and an fp32 master), ``bf16`` with states in bf16 too, ``nf4``."""
    optimizer: str | None = None
    """``adamw_8bit``; None is AdamW in the precision of the stored weights or their master."""
    trained_models: int = 1
    """Models of that shape that are trained on every training GPU: two with a critic."""
    frozen_models: int = 0
    """Models of that shape on every training GPU that are only asked: reference and reward."""
    has_reference: bool | None = None
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
    logprob_micro_batch: int | None = None
    """Sequences per GPU and pass without gradient."""
    max_tokens_per_gpu: int | None = None
    """Token budget of a packed micro-batch."""
    max_prompt_len: int | None = None
    max_response_len: int | None = None
    max_total_len: int | None = None
    group_size: int | None = None
    rollout_tp: int | None = None
    gpu_memory_utilization: float | None = None
    """The engine's share of a GPU."""
    engine_sleeps: bool | None = None
    """Whether a colocated engine frees its share while others work."""
    sync_bucket_mib: int | None = None
    """Weights in flight at a hand-over."""
    has_fused_loss: bool | None = None
    """The loss never holds all logits."""
    peak_gib: float | None = None
    """Highest memory of one GPU as the source states it."""
    defaults: str | None = None
    """Columns that the source does not state, filled with the framework's (or its named script's) default."""
    note: str | None = None

    @property
    def half(self) -> str:
        """Return ``train``, whose misses may be read to find what the model lacks, or ``held``, which is scored alone.

        By the SHA-256 of the source's thread, or of its repository where it is a file: an even first byte is `train`.
        """
        return "train" if hashlib.sha256(source_unit(self.source).encode()).digest()[0] % 2 == 0 else "held"

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


def source_unit(source: str) -> str:
    """Return the unit of the draw: a thread's address, or the repository of a file, in lower case."""
    text = source.lower()
    return text if text.startswith("http") else text.split("@")[0].split(":")[0]


@cache
def memory_cases() -> tuple[MemoryCase, ...]:
    """Return every case: the first collection, with the rows that the second one replaces, then the second's own."""
    known = {case.id: case for case in known_cases()}
    first = tuple(known.pop(case.id, case) for case in _read("memory_cases.csv"))
    return first + tuple(known.values())


@cache
def known_cases() -> tuple[MemoryCase, ...]:
    """Return the second collection, in the table's order."""
    return _read("memory_known.csv")


@cache
def third_cases() -> tuple[MemoryCase, ...]:
    """Return the third collection, labelled when the model was final for the first time; it is in no pool."""
    return _read("memory_third.csv")


@cache
def fourth_cases() -> tuple[MemoryCase, ...]:
    """Return the fourth collection, labelled before the model learnt from the third; it is in no pool either."""
    return _read("memory_fourth.csv")


def _read(name: str) -> tuple[MemoryCase, ...]:
    return tuple(MemoryCase.model_validate({key: text for key, text in row.items() if text}) for row in read_rows(name))


@cache
def excluded_posts() -> tuple[ExcludedPost, ...]:
    """Return what was left out, with the reasons."""
    return tuple(map(ExcludedPost.model_validate, read_rows("memory_excluded.csv")))
