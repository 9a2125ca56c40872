"""A labelled case as a layout: what its framework does where the case is silent, each from the framework's own files.

The surprise: `weights` decides more than any other column. The same 8B model takes 4, 2 or 18 bytes a parameter on one
card, and a post rarely says which; frameworks do.
"""

from dataclasses import dataclass, replace
from typing import Literal, final

from steptune.core.units import BYTES_PER_MIB
from steptune.footprint.layout import Counted, Place, RolloutLayout, TrainLayout
from steptune.published.memory_cases import MemoryCase

Sharding = Literal["none", "optimizer", "gradients", "full"]
Loss = Literal["fp32", "causal", "preference", "in_place", "vocab_parallel", "fused"]

SHARDINGS: dict[str, Sharding] = {"fsdp": "full", "zero3": "full", "zero2": "gradients", "megatron": "optimizer"}
"""What is divided over data-parallel devices, by the name in the table."""

FP32_WEIGHTS = ("fsdp", None)
"""FSDP trainers and plain PyTorch store fp32 weights and no master copy (verl, prime-rl, NeMo RL's DTensor, TRL)."""

RECOMPUTE_BY_DEFAULT = ("verl", "easyr1", "trl", "ms_swift", "llamafactory")
"""Frameworks that recompute unless told not to (`enable_gradient_checkpointing`, `gradient_checkpointing`)."""

ENGINE_SHARES = {"verl": 0.5, "nemo_rl": 0.6, "ms_swift": 0.9}
"""`gpu_memory_utilization` where it is not set (as in `memory/stated/`; ms-swift: `Command-line-parameters.md`)."""

CAUSAL_LOSS = ("llamafactory", "axolotl", "trl")
"""Frameworks whose supervised training leaves the loss to the model, over all positions (transformers' Trainer), and
whose preference training is TRL's."""

LORA_RANK = 32
"""Where adapters are trained and the rank is not stated: the least that verl's `ppo_lora.rst` recommends."""

IN_PLACE_LOSS = ("verl", "easyr1", "unsloth")
"""Frameworks whose loss writes its gradient over the logits, on FSDP or one device (FlashAttention's cross-entropy, and
Unsloth's own, `unsloth/kernels/cross_entropy_loss.py`)."""

PACKS_SEQUENCES = ("verl", "easyr1")
"""Frameworks that take the padding out of a micro-batch unless told otherwise (`use_remove_padding`); the others pad to
its longest sequence."""

DEEPSPEED = ("zero2", "zero3")

IDLE_OFFLOADS = ("ms_swift",)
"""Frameworks on DeepSpeed whose own offload lasts while the engine works (`offload_model`, `offload_optimizer`);
DeepSpeed's keeps weights and states on the host for good."""

RL_LOGITS = {"prime_rl": 8192 * 8192}
"""Logits that stand at once in RL: tokens times entries of the vocabulary (`trainer/models/layers/lm_head.py`)."""

EXPERT_TENSOR = {"ms_swift": 1, "nemo_rl": 1}
"""Ways each expert is divided beside expert parallelism where Megatron's own default, the tensor-parallel ways, is
overridden (`expert_tensor_parallel_size`)."""

IDLE_FRAMEWORKS = ("nemo_rl", "skyrl", "slime")
"""Frameworks whose colocated trainer waits on the host while the engine works."""

WHOLE_BY_DEFAULT = ("trl", "transformers", "llamafactory", "litgpt", "axolotl")
"""Frameworks that divide nothing over devices unless told to."""

EAGER_ATTENTION = ("trl", "transformers", "llamafactory", "open-instruct")
"""Frameworks on modules of transformers that choose the attention by version and model."""

FUSED_ATTENTION = ("qwen1.5", "qwen2", "qwen3", "qwq", "deepseek-r1-distill", "llama-3", "meta-llama-3")
"""Families younger than the release that made PyTorch's fused attention the default, so that no release which knows
them keeps scores unasked (https://github.com/huggingface/transformers/releases/tag/v4.36.0)."""

LOGPROB_BATCH = {"openrlhf": 8}
"""Sequences of a pass without gradient where they are not set (`micro_rollout_batch_size`, `cli/train_ppo.py`)."""

FUSED_STEPS = ("torchtitan",)
"""Trainers with a fused AdamW of PyTorch; Megatron's is fused too."""

STORED: dict[str, tuple[float, bool, float]] = {
    "fp32": (4, False, 4),
    "mixed": (2, True, 2),
    "bf16": (2, False, 2),
    "nf4": (0.5625, False, 2),
}
"""Bytes of a stored weight, whether an fp32 master stands beside it, and bytes of its gradient, by the table's word.
Four bits and a scale in fp32 for 64 weights (arXiv 2305.14314, section 3)."""

STATES = {"fp32": 8.0, "mixed": 8.0, "bf16": 4.0, "nf4": 8.0}
"""Bytes of Adam's two states a trained weight: in the precision of what is stepped."""

BITSANDBYTES_STATES = 2.0
"""8-bit Adam's (arXiv 2110.02861)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a case says of its tokens and devices, and whether something that decides is missing."""

    num_devices: int
    longest: int
    micro_tokens: int
    split: int
    is_whole: bool


def given_tokens(case: MemoryCase) -> Given | None:
    """Return tokens and devices of a case; None where not even the devices are known."""
    num_devices = case.num_train_gpus if case.num_train_gpus is not None else case.num_gpus
    if num_devices is None:
        return None
    split = case.sequence_parallel or case.train_cp or 1
    longest = case.worst_len
    given = Given(num_devices=num_devices, longest=1, micro_tokens=1, split=split, is_whole=False)
    if case.max_tokens_per_gpu is not None:
        budget = split * case.max_tokens_per_gpu
        known = longest if longest is not None else 1
        given = replace(given, longest=known, micro_tokens=max(known, budget), is_whole=longest is not None)
    elif longest is not None:
        samples = case.micro_batch if case.micro_batch is not None else 1
        is_whole = case.micro_batch is not None
        given = replace(given, longest=longest, micro_tokens=samples * longest, is_whole=is_whole)
    is_settled = case.recompute is not None or case.framework in RECOMPUTE_BY_DEFAULT
    return replace(given, is_whole=given.is_whole and is_settled)


def train_layout(case: MemoryCase, given: Given, vocab_size: int) -> TrainLayout:
    """Return the trainer of a case."""
    sharding = _sharding(case)
    is_megatron = sharding == "megatron"
    weight_bytes, has_master, grad_bytes = _stored(case, sharding)
    is_whole = SHARDINGS.get(sharding or "", "none") == "none"
    return TrainLayout(
        num_devices=given.num_devices,
        sharding=SHARDINGS[sharding] if sharding is not None else "none",
        tensor=case.train_tp or 1,
        pipeline=case.train_pp or 1,
        context=given.split,
        expert=case.train_ep or 1,
        expert_tensor=_expert_tensor(case, given),
        weight_bytes=weight_bytes,
        table_bytes=2 if case.weights == "nf4" else None,
        has_casts=case.weights == "fp32" and is_whole,
        has_master=has_master,
        grad_bytes=grad_bytes,
        optimizer_bytes=_state_bytes(case),
        step=_step(case, sharding),
        grads_stay=is_megatron,
        weights=_weights_place(case),
        optimizer=_optimizer_place(case),
        trained_models=case.trained_models,
        frozen_models=case.frozen_models,
        reference=Place.DEVICE if _has_reference(case) else None,
        recompute=_recompute(case),
        offloads_inputs=case.recompute == "offload",
        may_keep_scores=_may_keep_scores(case),
        has_fused_kernels=is_megatron,
        micro_tokens=given.micro_tokens,
        counted=_counted(case),
        logprob_tokens=_logprob_tokens(case, given),
        logprob_counted=None if case.logprob_micro_batch is None else _sequences(case),
        logits_tokens=_logits_tokens(case, given, vocab_size),
        loss=_loss(case, is_megatron=is_megatron),
        longest=given.longest,
        lora_rank=case.lora_rank or (LORA_RANK if case.is_lora else None),
        generates=case.placement == "colocated" and case.gpu_memory_utilization is None and sharding == "zero3",
    )


def _stored(case: MemoryCase, sharding: str | None) -> tuple[float, bool, float]:
    if case.weights is not None:
        weight_bytes, has_master, grad_bytes = STORED[case.weights]
        return weight_bytes, has_master, 4 if sharding == "megatron" else grad_bytes
    if sharding in FP32_WEIGHTS:
        return 4, False, 4
    return 2, True, 4 if sharding == "megatron" else 2


def _state_bytes(case: MemoryCase) -> float:
    if case.optimizer == "adamw_8bit":
        return BITSANDBYTES_STATES
    return 8.0 if case.weights is None or case.sharding == "megatron" else STATES[case.weights]


def _step(case: MemoryCase, sharding: str | None) -> Literal["fused", "foreach", "deepspeed"]:
    if sharding in ("zero2", "zero3"):
        return "deepspeed"
    is_fused = sharding == "megatron" or case.framework in FUSED_STEPS or case.optimizer is not None
    return "fused" if is_fused else "foreach"


def _recompute(case: MemoryCase) -> Literal["none", "selective", "operators", "full"]:
    if case.recompute == "none":
        return "none"
    if case.recompute == "selective":
        return "operators" if case.framework == "torchtitan" else "selective"
    return "full"


def _has_reference(case: MemoryCase) -> bool:
    if case.has_reference is not None:
        return case.has_reference and not case.is_lora
    return case.stage == "dpo" and not case.is_lora


def _logprob_tokens(case: MemoryCase, given: Given) -> int | None:
    samples = case.logprob_micro_batch
    if samples is None and case.stage in ("rl", "ppo") and case.max_tokens_per_gpu is None:
        samples = LOGPROB_BATCH.get(case.framework)
    return None if samples is None else samples * given.longest


def _counted(case: MemoryCase) -> Counted:
    return _sequences(case) if case.max_tokens_per_gpu is None else "tokens"


def _sequences(case: MemoryCase) -> Counted:
    return "packed" if case.framework in PACKS_SEQUENCES else "padded"


def _may_keep_scores(case: MemoryCase) -> bool:
    return case.framework in EAGER_ATTENTION and not case.model.lower().startswith(FUSED_ATTENTION)


def _loss(case: MemoryCase, *, is_megatron: bool) -> Loss:
    if case.has_fused_loss:
        return "fused"
    if case.framework in CAUSAL_LOSS and case.stage in ("sft", "dpo"):
        return "causal" if case.stage == "sft" else "preference"
    if is_megatron and case.stage == "sft":
        return "vocab_parallel"
    return "in_place" if case.framework in IN_PLACE_LOSS and not is_megatron else "fp32"


def _expert_tensor(case: MemoryCase, given: Given) -> int | None:
    ways = (case.train_tp or 1) * (case.train_ep or 1) * (case.train_pp or 1)
    return 1 if ways > given.num_devices else EXPERT_TENSOR.get(case.framework)


def _logits_tokens(case: MemoryCase, given: Given, vocab_size: int) -> int | None:
    if case.has_fused_loss is False:
        return None
    if case.framework == "trl" and case.max_response_len is not None:
        return (case.micro_batch or 1) * (case.max_response_len + 1)
    logits = RL_LOGITS.get(case.framework) if case.stage == "rl" else None
    return None if logits is None else min(-(-logits // vocab_size), given.micro_tokens)


def _sharding(case: MemoryCase) -> str | None:
    """Return the table's word; a row that states tensor parallelism and nothing else ran on Megatron."""
    if case.sharding is not None or case.framework in WHOLE_BY_DEFAULT:
        return case.sharding
    return "megatron" if case.train_tp is not None or case.train_ep is not None else "fsdp"


def _waits_on_host(case: MemoryCase) -> bool:
    return case.placement == "colocated" and case.framework in IDLE_FRAMEWORKS


def _leaves_for_good(case: MemoryCase) -> bool:
    """Return whether DeepSpeed keeps weights and optimizer on the host."""
    is_idle = case.placement == "colocated" and case.framework in IDLE_OFFLOADS
    return case.sharding in DEEPSPEED and case.offload == "params+optimizer" and not is_idle


def _weights_place(case: MemoryCase) -> Place:
    if _leaves_for_good(case):
        return Place.HOST
    return Place.IDLE_HOST if _waits_on_host(case) or case.offload == "params+optimizer" else Place.DEVICE


def _optimizer_place(case: MemoryCase) -> Place:
    if case.offload == "optimizer" or _leaves_for_good(case):
        return Place.HOST
    return Place.IDLE_HOST if _waits_on_host(case) or case.offload == "params+optimizer" else Place.DEVICE


def engine_layout(case: MemoryCase, given: Given) -> tuple[RolloutLayout | None, bool]:
    """Return the engine of a case, and whether enough is known of it.

    On the trainer's devices it needs its share; on devices of its own it is judged only where the share is stated.
    """
    is_colocated = case.placement == "colocated"
    if case.stage not in ("rl", "ppo") or case.placement not in ("colocated", "disaggregated"):
        return None, True
    share = case.gpu_memory_utilization
    if is_colocated:
        share = share or ENGINE_SHARES.get(case.framework)
    if share is None:
        # TRL and ms-swift generate with the trainer's own weights unless told otherwise
        return None, not is_colocated or case.framework == "trl" or case.engine_sleeps is not None
    tensor = case.rollout_tp or (2 if case.framework == "verl" else 1)
    sleeps = case.engine_sleeps if case.engine_sleeps is not None else case.framework != "trl"
    bucket = None if case.sync_bucket_mib is None else case.sync_bucket_mib * float(BYTES_PER_MIB)
    longest = given.longest
    layout = RolloutLayout(tensor=tensor, share=share, sleeps=sleeps, longest=longest, sync_bucket_bytes=bucket)
    # an engine apart may hold its weights in one byte: not stated, so the favourable value
    return layout if is_colocated else layout.model_copy(update={"weight_bytes": 1}), True
