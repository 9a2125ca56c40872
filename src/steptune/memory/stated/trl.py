"""TRL's settings as a layout. How many devices, and how they are sharded, is in accelerate's file, not in TRL's."""

from typing import Literal

from steptune.footprint.layout import JobLayout, Place, RolloutLayout, TrainLayout
from steptune.memory.stated.asked import Asked, refused

LIGER_CHUNK_TOKENS = 1024
"""Tokens whose logits Liger's fused GRPO loss holds at once, about: one sequence at a time."""

DEFAULT_PROMPT_TOKENS = 512
"""TRL's `max_prompt_length` where it is not set, until 0.26 (https://huggingface.co/docs/trl/v0.25.0/grpo_trainer)."""

_STAGES: dict[int, Literal["none", "optimizer", "gradients", "full"]] = {
    0: "none",
    1: "optimizer",
    2: "gradients",
    3: "full",
}


def trl_layout(asked: Asked, num_devices: int | None) -> JobLayout:
    """Return the layout of a TRL configuration on ``num_devices``, where its own settings do not say how many.

    Raises:
        LayoutError: a setting that decides bytes is not stated.
    """
    prompt = asked.count("max_prompt_length", default=DEFAULT_PROMPT_TOKENS)
    answer = asked.count("max_completion_length", default=512)
    devices = asked.count("num_processes", default=num_devices)
    is_colocated = asked.flag("use_vllm") and asked.word("vllm_mode") == "colocate"
    engine = _engine(asked, prompt + answer) if is_colocated else None
    return JobLayout(train=_train(asked, prompt, answer, devices), rollout=engine)


def _train(asked: Asked, prompt: int, answer: int, devices: int) -> TrainLayout:
    sharding = _sharding(asked)
    has_adapters = asked.flag("use_peft")
    stored = _stored_bytes(asked)
    is_deepspeed = "deepspeed" in asked.word("distributed_type") or _stage(asked) is not None
    states = 1.0 if "8bit" in asked.word("optim") else stored if stored >= 2 else 4.0
    samples = asked.count("per_device_train_batch_size", default=8)
    is_fused = asked.flag("use_liger_kernel")
    offloaded = asked.word("deepspeed_config.offload_optimizer_device", "offload_optimizer_device") == "cpu"
    return TrainLayout(
        num_devices=devices,
        sharding=sharding,
        weight_bytes=2 if is_deepspeed and not has_adapters else stored,
        has_master=is_deepspeed,
        grad_bytes=2 if is_deepspeed else max(2.0, stored),
        optimizer_bytes=8 if is_deepspeed else 2 * states,
        step="deepspeed" if is_deepspeed else "fused",
        optimizer=Place.HOST if offloaded else Place.DEVICE,
        reference=Place.DEVICE if asked.number("beta", 0.0) and not has_adapters else None,
        recompute="full" if asked.flag("gradient_checkpointing", default=True) else "none",
        offloads_inputs=asked.flag("activation_offloading"),
        has_fused_kernels=is_fused,
        micro_tokens=samples * (prompt + answer),
        counted="padded",
        # the head is applied to the answers alone (`logits_to_keep`), or to one answer of a fused loss
        logits_tokens=LIGER_CHUNK_TOKENS if is_fused else samples * (answer + 1),
        longest=prompt + answer,
        lora_rank=asked.count("lora_r", default=16) if has_adapters else None,
        generates=not asked.flag("use_vllm") and asked.flag("ds3_gather_for_generation", default=True),
    )


def _engine(asked: Asked, longest: int) -> RolloutLayout:
    return RolloutLayout(
        tensor=asked.count("vllm_tensor_parallel_size", default=1),
        share=asked.part("vllm_gpu_memory_utilization", 0.3),
        sleeps=asked.flag("vllm_enable_sleep_mode"),
        longest=asked.count("vllm_max_model_length", "vllm_max_model_len", default=longest),
    )


def _sharding(asked: Asked) -> Literal["none", "optimizer", "gradients", "full"]:
    stage = _stage(asked)
    if stage is not None:
        return _STAGES[stage]
    return "full" if "fsdp" in asked.word("distributed_type", "fsdp") else "none"


def _stage(asked: Asked) -> int | None:
    """Return DeepSpeed's stage; None where it is not set.

    Raises:
        LayoutError: there is no such stage.
    """
    for key in ("deepspeed_config.zero_stage", "zero_stage"):
        stage = asked.optional(key, "a stage from 0 to 3")
        if stage is not None:
            if stage not in _STAGES:
                raise refused(key, stage, "a stage from 0 to 3")
            return int(stage)
    return None


def _stored_bytes(asked: Asked) -> float:
    """`GRPOTrainer` loads a model named by a string in fp32 unless `dtype` says otherwise."""
    if asked.flag("load_in_4bit"):
        return 0.5
    if asked.flag("load_in_8bit"):
        return 1.0
    return asked.type_bytes(
        "model_init_kwargs.dtype", "dtype", "torch_dtype", "model_init_kwargs.torch_dtype", default=4
    )
