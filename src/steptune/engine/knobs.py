"""The engine's levers, typed. `adapters/embedded` describes the same fields to the tuner (a test compares)."""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.job import CorrectionKind, JobSpec
from steptune.core.records import Record

DType = Literal["fp32", "bf16"]
RolloutDType = Literal["fp32", "bf16", "int8"]
Dispatch = Literal["where", "sort", "grouped"]
INT8_IF = "rollout_dtype"
"""The knob that may be `int8` only where `knobs.allow` names it or `knobs.pin` says so: 8 bits move log-probs more than
bf16 does and pay for models of hundreds of millions of parameters only, so they are worth no probe unasked."""

RolloutRouting = Literal["round_robin", "least_tokens"]

MAX_REPLICAS = 8
"""Rollout replicas of one run: each is a process with a model and a cache of its own, all on one machine."""

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
OverSampling = Annotated[float, Field(gt=1, le=2)]
PositiveCores = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class EngineKnobs(Record):
    """One configuration of the engine.

    Example: the synchronous start is everything at its default here; the usual end is
    ``EngineKnobs(share_prefill=True, compact_finished=True, layout="packed", micro_batch_tokens=4096)``.
    """

    rollout_engine: Literal["embedded", "vllm"] = "embedded"
    """Who generates: this engine, or vLLM's server in an environment of its own (`foreign`; dense models, sync)."""
    rollout_concurrency: PositiveInt | None = None
    """Rows decoding at once; None decodes the whole batch together."""
    admit_order: Literal["arrival", "longest_first"] = "arrival"
    """Who takes a free slot where fewer rows decode than wait: the next in the batch, or the row that its group's rows,
    or the problem's last ones, say will be longest."""
    share_prefill: bool = False
    """Prefill each prompt once and fork its KV cache to the group, instead of once per rollout."""
    reuse_prefixes: bool = False
    """Keep the cache of finished rows until the next update, for prompts that go on from them (several turns)."""
    compact_finished: bool = False
    """Finished rows leave the decode batch at once (and waiting rows take their place)."""
    rollout_dtype: RolloutDType = "fp32"
    """Number format of weights and KV cache in the rollout; int8 rounds the matrices to 8 bits (`int8`) and leaves the
    rest float32."""
    rollout_threads: PositiveInt = 2
    """Threads of the rollout, of each of its replicas where there are several."""
    rollout_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = 1
    """Engines that share the groups of every step, each with its own weights, cache and slots; all but one of them in
    processes of their own (`replicas`). `rollout_concurrency` holds for each."""
    rollout_routing: RolloutRouting = "round_robin"
    """Which replica makes a group: each in turn, or the one that has the fewest tokens to do, by prompts and limits."""
    train_threads: PositiveInt = 2
    """Threads of the trainer, of each of its ranks where there are two."""
    train_ranks: Annotated[int, Field(ge=1, le=2)] = 1
    """Processes that share the rows of every optimizer update and add up their gradients (`ranks`). Two of one thread
    each do the work of one with two threads, without its waiting at every operator."""
    train_dtype: DType = "fp32"
    """bf16 runs the trainer's forward under autocast over fp32 weights."""
    layout: Literal["padded", "sorted", "packed", "shared_prefix"] = "padded"
    """How rows become micro-batches: padded to the whole batch's width, sorted and padded per micro-batch,
    concatenated without padding, or so with each group's prompt computed once (attention-only models)."""
    micro_batch_tokens: PositiveInt = 2048
    """Positions per micro-batch, padding included (at least one row always fits)."""
    moe_dispatch: Dispatch = "grouped"
    """How tokens reach their experts, in rollout and trainer alike; nothing to a model without experts."""
    router_replay: bool = False
    """The trainer takes the experts that the rollout took (`routes`); nothing to a model without experts."""
    compile: bool = False
    """The trainer's layers run compiled, but for what looks back and what sorts tokens to experts (`compiled`). A run
    then starts later: everything is compiled before its first step."""
    recompute: bool = False
    """Recompute each layer's activations in the backward pass instead of keeping them."""
    offload: bool = False
    """The inputs that `recompute` keeps wait in the host's memory and are copied back a layer ahead. Off by itself,
    with a warning that says why, where it cannot help (a CPU's memory is the host's)."""
    head_tile_tokens: PositiveInt | None = None
    """Completion positions whose logits exist at once, recomputed in the backward pass; None computes them together."""
    logprob_batch_tokens: PositiveInt | None = None
    """Positions per batch of a separate old-log-prob pass; None reads the first training forward instead,
    allowed only where that pass is redundant (one update per rollout batch)."""
    rollout_cores: PositiveCores | None = None
    """Cores the rollout's process may use, by a CPU quota, fractions allowed; the trainer's gets the rest of the job's.
    None: no quota. Only where the two overlap (see `quota.split`)."""
    schedule: Literal["sync", "one_step_off", "async"] = "sync"
    """one_step_off generates the next batch in a second process while the trainer works on this one; async decodes a
    stream of groups there, as far ahead as `max_lag` allows, and slots are refilled as rows finish."""
    max_lag: NonNegativeInt | None = None
    """Schedule async, or `partial_rollout`: largest age of a trained token, in optimizer updates, never above
    `limits.max_staleness`. None otherwise: the age is fixed."""
    inflight_update: bool = False
    """Schedule async: new weights take over between two decode iterations, over the cache of the old ones. Without it
    a row keeps its weights: new ones are taken when `max_lag` lets no more be begun under the old and all is done."""
    partial_rollout: OverSampling | None = None
    """Schedule sync: so many times a step's groups are in the making, and the step stops when enough are complete. The
    others go on in the next one with the tokens they have (`stream.carry`). None: every step finishes what it began."""
    handover: Literal["alias", "copy", "file"] = "copy"
    """How new weights reach the rollout: the same tensors, a copy through (shared) memory, or a file."""
    correction: CorrectionKind = "none"
    """Importance-sampling correction; the job's own unless a change carries one it needs."""


def rollout_formats(job: JobSpec) -> tuple[RolloutDType, ...]:
    """Return the number formats of the rollout that are worth a probe and a trial."""
    is_asked = INT8_IF in job.knobs.allow or job.knobs.pin.get(INT8_IF) == "int8"
    return ("fp32", "bf16", "int8") if is_asked else ("fp32", "bf16")
