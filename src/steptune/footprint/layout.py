"""How a job lies on its devices: what decides the bytes of one of them.

The surprise: "offload" means two things. verl's moves weights or optimizer to the host *between* the phases that use
them (`IDLE_HOST`), so the training peak stays; DeepSpeed's, FSDP's CPU offload and Megatron's keep them there for good
(`HOST`).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from steptune.core.records import Record

Count = Annotated[int, Field(ge=1)]
Tokens = Annotated[int, Field(ge=0)]
Frac = Annotated[float, Field(gt=0, le=1)]
Counted = Literal["tokens", "packed", "padded"]


class Place(StrEnum):
    """Where weights or optimizer states are."""

    DEVICE = "device"
    """On the device in every phase."""
    IDLE_HOST = "idle_host"
    """On the device in the phases that use them only."""
    HOST = "host"
    """On the host; pieces pass through the device."""


class TrainLayout(Record):
    """The trainer on its devices.

    Example: verl's FSDP defaults on 8 devices, 7B: ``TrainLayout(num_devices=8, sharding="full", weight_bytes=4,
    has_master=False, micro_tokens=16384, longest=4096)``.
    """

    num_devices: Count
    sharding: Literal["none", "optimizer", "gradients", "full"]
    """What is divided over data-parallel devices: ZeRO 0 to 3 (arXiv 1910.02054); FSDP is ``full``, Megatron's
    distributed optimizer ``optimizer``."""
    shard_ways: Count | None = None
    """Devices one copy is divided over; None is all data-parallel ones."""
    tensor: Count = 1
    pipeline: Count = 1
    context: Count = 1
    """Ways one sequence is divided: context parallelism or Ulysses."""
    expert: Count = 1
    expert_tensor: Count | None = None
    """Ways each expert is divided; None is as the rest of a layer."""
    sequence_parallel: bool = True
    """Whether what tensor parallelism leaves whole is divided by it too (arXiv 2205.05198)."""
    weight_bytes: float = 2
    """Bytes of a stored weight."""
    table_bytes: float | None = None
    """Bytes of a stored weight of embedding and head; None is as the rest (quantized weights leave them alone)."""
    has_casts: bool = False
    """Whether 16-bit copies of whole fp32 weights live through a pass: autocast's, where nothing is sharded."""
    has_master: bool = True
    """An fp32 copy of the weights beside them, with the optimizer; False where the stored weights are fp32 or the
    optimizer works on them."""
    grad_bytes: float = 4
    optimizer_bytes: float = 8
    """Bytes of optimizer state a trained weight: AdamW 8, with 8-bit states 2, SGD 0."""
    step: Literal["fused", "foreach", "deepspeed"] = "fused"
    """Who steps the optimizer: one kernel that needs nothing more, PyTorch's lists of tensors, or DeepSpeed's ZeRO."""
    grads_stay: bool = False
    """Whether gradient buffers outlive the update (Megatron's)."""
    weights: Place = Place.DEVICE
    optimizer: Place = Place.DEVICE
    trained_models: Count = 1
    """Models of that shape that are trained on the same devices: two with a critic."""
    frozen_models: Tokens = 0
    """Models of that shape on the same devices that are only asked: reward model and reference."""
    reference: Place | None = None
    """A second model for the KL penalty; None is none."""
    recompute: Literal["none", "selective", "operators", "full"] = "full"
    """What is computed again in the backward pass: nothing, attention alone, every second operator (torchtitan's
    selective checkpoints), or whole layers."""
    offloads_inputs: bool = False
    """Whether the inputs of recomputed layers wait on the host."""
    may_keep_scores: bool = False
    """Whether the attention may be the eager one, which keeps its scores for the backward pass: not known otherwise."""
    has_fused_kernels: bool = False
    """Norms, rotation and activation in one kernel each (Megatron, Liger); eager PyTorch keeps copies between."""
    micro_tokens: Tokens
    """Tokens of the largest micro-batch with padding, before `context` divides it."""
    logprob_tokens: Tokens | None = None
    """Likewise of the passes without gradient; None is `micro_tokens`."""
    counted: Counted = "tokens"
    """What `micro_tokens` is: a budget, which is filled, or sequences at their limits, whose lengths are packed one
    after the other or padded to the longest of them."""
    logprob_counted: Counted | None = None
    """Likewise of `logprob_tokens`; None is as `counted`."""
    logits_tokens: Tokens | None = None
    """Tokens whose logits stand at once, where fewer than the micro-batch has: answers alone, or a chunk."""
    loss: Literal["fp32", "causal", "preference", "in_place", "vocab_parallel", "fused"] = "fp32"
    """Whether the loss makes an fp32 copy of the logits, or is transformers' own over all positions, or compares two
    models' (DPO of TRL and LlamaFactory), or works on them in bf16 and writes the gradient over them (verl's FSDP
    trainer with FlashAttention's cross-entropy), or has one fp32 copy that becomes its gradient (Megatron's, without an
    entropy), or never holds them all."""
    longest: Tokens
    """Prompt and answer at their limits: a micro-batch cannot be smaller."""
    lora_rank: Count | None = None
    """None trains every weight."""
    generates: bool = False
    """Whether it generates with its own weights: where they are divided, every device gathers them whole for that."""


class RolloutLayout(Record):
    """One engine.

    Example: ``RolloutLayout(tensor=2, share=0.6, sleeps=True, longest=4096)``.
    """

    tensor: Count = 1
    pipeline: Count = 1
    data: Count = 1
    """Ranks that attend to sequences of their own and share the experts (DP attention): devices are tensor x pipeline
    x data."""
    expert: Count = 1
    weight_bytes: float = 2
    expert_bytes: float | None = None
    """Bytes of a weight of a routed expert; None is `weight_bytes`. 4-bit checkpoints of sparse models leave the rest
    in bf16 (https://huggingface.co/openai/gpt-oss-120b)."""
    products: Literal["bf16", "fp8"] | None = None
    """Precision of the matrix products; None is fp8 where `weight_bytes` is 1."""
    kv_bytes: float = 2
    share: Frac
    """`gpu_memory_utilization` (vLLM) or `mem_fraction_static` (SGLang)."""
    share_of: Literal["total", "free"] = "total"
    """vLLM takes its share of the whole device, SGLang of what is free when it starts."""
    sleeps: bool = True
    """Whether it frees weights and cache while others work on its device."""
    has_graphs: bool = True
    """CUDA graphs; their memory is outside the share."""
    max_sequences: Count = 256
    batched_tokens: Count = 8192
    longest: Tokens
    sync_bucket_bytes: float | None = None
    """Weights in flight at a hand-over; None is the largest tensor, gathered."""


class JobLayout(Record):
    """Trainer and engines."""

    train: TrainLayout
    rollout: RolloutLayout | None = None
    """None where the job states no engine."""
    is_colocated: bool = True
    """Whether they take turns on the same devices."""
