"""NeMo RL's settings as a layout.

Between trainer and engine on the same devices it always moves the trainer's weights and optimizer to the host while the
engine generates (`prepare_for_generation`, `offload_after_refit`), whatever is set. A recipe stands on another through
`defaults:`, so lengths, batches and devices count only where the input itself states them.
"""

from steptune.footprint.layout import JobLayout, Place, RolloutLayout, TrainLayout
from steptune.memory.stated.asked import Asked

GENERATION = "policy.generation"
MEGATRON = "policy.megatron_cfg"
DTENSOR = "policy.dtensor_cfg"


def nemo_rl_layout(asked: Asked, num_devices: int | None = None) -> JobLayout:
    """Return the layout of a NeMo RL configuration on ``num_devices``, where the caller knows them.

    Raises:
        LayoutError: a setting that decides bytes is not stated.
    """
    longest = asked.stated("policy.max_total_sequence_length")
    is_colocated = asked.flag(f"{GENERATION}.colocated.enabled", default=True)
    devices = num_devices or asked.stated("cluster.gpus_per_node") * asked.count("cluster.num_nodes", default=1)
    if not is_colocated:
        devices = max(1, devices - _engine_devices(asked))
    idle = Place.IDLE_HOST if is_colocated else Place.DEVICE
    build = _megatron if asked.view.backend() == "megatron" else _dtensor
    return JobLayout(
        train=build(asked, longest, devices, idle), rollout=_engine(asked, longest), is_colocated=is_colocated
    )


def _dtensor(asked: Asked, longest: int, devices: int, idle: Place) -> TrainLayout:
    split = asked.count(f"{DTENSOR}.context_parallel_size", default=1)
    place = Place.HOST if asked.flag(f"{DTENSOR}.cpu_offload") else idle
    return TrainLayout(
        num_devices=devices,
        sharding="full",
        tensor=asked.count(f"{DTENSOR}.tensor_parallel_size", default=1),
        context=split,
        sequence_parallel=asked.flag(f"{DTENSOR}.sequence_parallel"),
        # weights are loaded in fp32 and computed in `policy.precision` (models/policy/dtensor_policy_worker.py)
        weight_bytes=4,
        has_master=False,
        step="foreach",  # `torch.optim.AdamW` of the recipes (examples/configs/grpo_math_1B.yaml)
        weights=place,
        optimizer=place,
        reference=_reference(asked),
        recompute="full" if asked.flag(f"{DTENSOR}.activation_checkpointing") else "none",
        micro_tokens=_tokens(asked, longest, "train_mb_tokens", "policy.train_micro_batch_size"),
        logprob_tokens=_tokens(asked, longest, "logprob_mb_tokens", "policy.logprob_batch_size"),
        counted="tokens" if asked.flag("policy.sequence_packing.enabled") else "padded",
        longest=longest,
    )


def _megatron(asked: Asked, longest: int, devices: int, idle: Place) -> TrainLayout:
    ddp, optimizer = f"{MEGATRON}.distributed_data_parallel_config", f"{MEGATRON}.optimizer"
    leaves = asked.flag(f"{optimizer}.optimizer_cpu_offload")
    return TrainLayout(
        num_devices=devices,
        sharding="optimizer",
        tensor=asked.count(f"{MEGATRON}.tensor_model_parallel_size", default=1),
        pipeline=asked.count(f"{MEGATRON}.pipeline_model_parallel_size", default=1),
        context=asked.count(f"{MEGATRON}.context_parallel_size", default=1),
        expert=asked.count(f"{MEGATRON}.expert_model_parallel_size", default=1),
        expert_tensor=asked.count(f"{MEGATRON}.expert_tensor_parallel_size", default=1),
        sequence_parallel=asked.flag(f"{MEGATRON}.sequence_parallel"),
        grad_bytes=4 if asked.flag(f"{ddp}.grad_reduce_in_fp32") else 2,
        grads_stay=True,
        weights=idle,
        optimizer=Place.HOST if leaves else idle,
        reference=_reference(asked),
        recompute="full" if asked.flag(f"{MEGATRON}.activation_checkpointing") else "none",
        has_fused_kernels=True,
        micro_tokens=_tokens(asked, longest, "train_mb_tokens", "policy.train_micro_batch_size"),
        logprob_tokens=_tokens(asked, longest, "logprob_mb_tokens", "policy.logprob_batch_size"),
        counted="tokens" if asked.flag("policy.sequence_packing.enabled") else "padded",
        longest=longest,
    )


def _engine(asked: Asked, longest: int) -> RolloutLayout:
    config = f"{GENERATION}.vllm_cfg"
    cache = asked.word(f"{config}.kv_cache_dtype")
    return RolloutLayout(
        tensor=asked.count(f"{config}.tensor_parallel_size", default=1),
        pipeline=asked.count(f"{config}.pipeline_parallel_size", default=1),
        expert=asked.count(f"{config}.expert_parallel_size", default=1),
        weight_bytes=asked.type_bytes(f"{config}.precision", "policy.precision", default=2),
        kv_bytes=1 if cache.startswith("fp8") else 2,
        share=asked.part(f"{config}.gpu_memory_utilization", 0.6),
        sleeps=True,
        has_graphs=not asked.flag(f"{config}.enforce_eager"),
        longest=asked.count(f"{config}.max_model_len", default=longest),
    )


def _tokens(asked: Asked, longest: int, budget: str, samples: str) -> int:
    """A packed micro-batch has `*_mb_tokens`, whose default is samples times the longest sequence: the same number."""
    own = asked.limit(f"policy.sequence_packing.{budget}")
    if own is not None and asked.flag("policy.sequence_packing.enabled"):
        return max(longest, own)
    if samples == "policy.logprob_batch_size" and asked.limit(samples) is not None:
        return asked.count(samples) * longest
    return asked.stated("policy.train_micro_batch_size") * longest


def _reference(asked: Asked) -> Place | None:
    """Its weights wait on the host and are swapped in for its own pass."""
    weight = asked.number("loss_fn.reference_policy_kl_penalty", 0.0)
    return Place.HOST if weight else None


def _engine_devices(asked: Asked) -> int:
    resources = f"{GENERATION}.colocated.resources"
    nodes = asked.count(f"{resources}.num_nodes", default=1)
    return nodes * asked.count(f"{resources}.gpus_per_node", "cluster.gpus_per_node")
