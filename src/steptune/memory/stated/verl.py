"""verl's settings as a layout. Its offload flags move states between phases, so the update holds them all."""

from steptune.footprint.layout import Counted, JobLayout, Place, RolloutLayout, TrainLayout
from steptune.memory.stated.asked import Asked

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"

MIB = 1024**2

FUSED_CHUNK_TOKENS = 1024
"""Tokens whose logits verl's fused kernels hold at once, about: they tile vocabulary and tokens
(verl/utils/experimental/torch_functional.py, `chunk_size=512`)."""


def verl_layout(asked: Asked, num_devices: int | None = None) -> JobLayout:
    """Return the layout of a verl configuration on ``num_devices``, where the caller knows them.

    Raises:
        LayoutError: a setting that decides bytes is not stated.
    """
    longest = asked.count("data.max_prompt_length") + asked.count("data.max_response_length")
    is_megatron = asked.view.backend() == "megatron"
    train = (_megatron if is_megatron else _fsdp)(asked, longest, num_devices or _devices(asked))
    return JobLayout(
        train=train,
        rollout=_engine(asked, longest),
        is_colocated=asked.flag("actor_rollout_ref.hybrid_engine", default=True),
    )


def _fsdp(asked: Asked, longest: int, devices: int) -> TrainLayout:
    config = f"{ACTOR}.fsdp_config"
    split = asked.count(
        f"{ACTOR}.ulysses_sequence_parallel_size", f"{config}.ulysses_sequence_parallel_size", default=1
    )
    stored = asked.type_bytes(f"{config}.model_dtype", default=4)
    goes = asked.flag(f"{config}.offload_policy")
    # gradients and AdamW's two states have the stored weights' type
    return TrainLayout(
        num_devices=devices,
        sharding="full",
        shard_ways=asked.limit(f"{config}.fsdp_size"),
        context=split,
        weight_bytes=stored,
        has_master=False,
        grad_bytes=stored,
        optimizer_bytes=2 * stored,
        step="foreach",  # `torch.optim.AdamW` as it is (verl/workers/config/optimizer.py)
        weights=Place.HOST if goes else _place(asked, f"{config}.param_offload"),
        optimizer=Place.HOST if goes else _place(asked, f"{config}.optimizer_offload"),
        reference=_reference(asked, "actor_rollout_ref.ref.fsdp_config.param_offload"),
        recompute="full" if asked.flag(f"{MODEL}.enable_gradient_checkpointing", default=True) else "none",
        offloads_inputs=asked.flag(f"{MODEL}.enable_activation_offload"),
        has_fused_kernels=asked.flag(f"{MODEL}.use_liger"),
        micro_tokens=_micro_tokens(asked, longest, split),
        counted=_counted(asked, has_budget=asked.flag(f"{ACTOR}.use_dynamic_bsz")),
        logprob_tokens=_logprob_tokens(asked, longest, split),
        logprob_counted=_counted(asked, has_budget=_has_logprob_budget(asked)),
        loss="in_place",
        logits_tokens=FUSED_CHUNK_TOKENS if asked.flag(f"{MODEL}.use_fused_kernels") else None,
        longest=longest,
        lora_rank=_lora(asked),
    )


def _megatron(asked: Asked, longest: int, devices: int) -> TrainLayout:
    config = f"{ACTOR}.megatron"
    split = asked.count(f"{config}.context_parallel_size", default=1)
    granularity = asked.word(f"{config}.override_transformer_config.recompute_granularity")
    fraction = asked.number(f"{ACTOR}.optim.override_optimizer_config.optimizer_offload_fraction", 0)
    return TrainLayout(
        num_devices=devices,
        sharding="optimizer" if asked.flag(f"{config}.use_distributed_optimizer", default=True) else "none",
        tensor=asked.count(f"{config}.tensor_model_parallel_size", default=1),
        pipeline=asked.count(f"{config}.pipeline_model_parallel_size", default=1),
        context=split,
        expert=asked.count(f"{config}.expert_model_parallel_size", default=1),
        expert_tensor=asked.limit(f"{config}.expert_tensor_parallel_size"),
        sequence_parallel=asked.flag(f"{config}.sequence_parallel", default=True),
        grads_stay=not asked.flag(f"{config}.grad_offload"),
        weights=_place(asked, f"{config}.param_offload"),
        optimizer=Place.HOST if fraction >= 1 else _place(asked, f"{config}.optimizer_offload"),
        reference=_reference(asked, "actor_rollout_ref.ref.megatron.param_offload"),
        recompute="full" if granularity == "full" else "selective" if granularity == "selective" else "none",
        has_fused_kernels=True,
        micro_tokens=_micro_tokens(asked, longest, split),
        counted=_counted(asked, has_budget=asked.flag(f"{ACTOR}.use_dynamic_bsz")),
        logprob_tokens=_logprob_tokens(asked, longest, split),
        logprob_counted=_counted(asked, has_budget=_has_logprob_budget(asked)),
        longest=longest,
        lora_rank=_lora(asked),
    )


def _engine(asked: Asked, longest: int) -> RolloutLayout:
    quantized = asked.word(f"{ROLLOUT}.quantization")
    is_vllm = asked.word(f"{ROLLOUT}.name") in ("vllm", "")
    bucket = asked.number(f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", 2048)
    return RolloutLayout(
        tensor=asked.count(f"{ROLLOUT}.tensor_model_parallel_size", default=2),
        expert=asked.count(f"{ROLLOUT}.expert_parallel_size", default=1),
        weight_bytes=1 if "fp8" in quantized else asked.type_bytes(f"{ROLLOUT}.dtype", default=2),
        share=asked.part(f"{ROLLOUT}.gpu_memory_utilization", 0.5),
        share_of="total" if is_vllm else "free",
        sleeps=asked.flag(f"{ROLLOUT}.free_cache_engine", default=True),
        has_graphs=not asked.flag(f"{ROLLOUT}.enforce_eager"),
        max_sequences=asked.count(f"{ROLLOUT}.max_num_seqs", default=256),
        batched_tokens=asked.count(f"{ROLLOUT}.max_num_batched_tokens", default=8192),
        longest=asked.limit(f"{ROLLOUT}.max_model_len") or longest,
        sync_bucket_bytes=bucket * MIB,
    )


def _micro_tokens(asked: Asked, longest: int, split: int) -> int:
    if asked.flag(f"{ACTOR}.use_dynamic_bsz"):
        return max(longest, split * asked.count(f"{ACTOR}.ppo_max_token_len_per_gpu", default=16384))
    samples = asked.count(f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_micro_batch_size")
    return samples * longest


def _logprob_tokens(asked: Asked, longest: int, split: int) -> int | None:
    """The passes without gradient follow the training's settings where they have none of their own."""
    if _has_logprob_budget(asked):
        own = asked.limit(f"{ROLLOUT}.log_prob_max_token_len_per_gpu")
        return None if own is None else max(longest, split * own)
    samples = asked.limit(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu")
    return None if samples is None else samples * longest


def _has_logprob_budget(asked: Asked) -> bool:
    is_dynamic = asked.view.value(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    return is_dynamic is True or (is_dynamic is None and asked.flag(f"{ACTOR}.use_dynamic_bsz"))


def _counted(asked: Asked, *, has_budget: bool) -> Counted:
    if has_budget:
        return "tokens"
    return "packed" if asked.flag(f"{MODEL}.use_remove_padding") else "padded"


def _reference(asked: Asked, key: str) -> Place | None:
    is_used = asked.flag(f"{ACTOR}.use_kl_loss") or asked.flag("algorithm.use_kl_in_reward")
    if not is_used or _lora(asked) is not None:  # with adapters the reference is the model without them
        return None
    return _place(asked, key)


def _place(asked: Asked, key: str) -> Place:
    return Place.IDLE_HOST if asked.flag(key) else Place.DEVICE


def _lora(asked: Asked) -> int | None:
    return asked.limit(f"{MODEL}.lora_rank")


def _devices(asked: Asked) -> int:
    return asked.count("trainer.n_gpus_per_node", default=8) * asked.count("trainer.nnodes", default=1)
