"""The footprint model as an arm of the memory score: a labelled case as a layout, judged as any job is.

Rules, written before the arm was scored once (defaults of ms-swift, NeMo RL and prime-rl, the unstated LoRA rank and
DPO's reference came after that, from the frameworks' own files): what a post does not state has its framework's
default where one is known; a setting that decides and has none takes its most favourable value, and then only *does
not fit* is an answer. So is it with a critic beside the actor, which the footprint does not count. Surprise: a case
without the model's name or the GPU's memory is not guessed at, though its outcome may be obvious to a reader.
"""

from dataclasses import dataclass, replace
from typing import Literal, final

from steptune.core.errors import DeviceError, ModelError
from steptune.core.estimate import Estimate, Source
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.fit import REPORTED_FRAC, Fit, capacity_of, judge
from steptune.footprint.layout import JobLayout, Place, RolloutLayout, TrainLayout
from steptune.hardware.devices import named_device
from steptune.published.memory_cases import MemoryCase
from steptune.score.memory import Fits
from steptune.shapes.registry import named_shape

Sharding = Literal["none", "optimizer", "gradients", "full"]

SHARDINGS: dict[str, Sharding] = {"fsdp": "full", "zero3": "full", "zero2": "gradients", "megatron": "optimizer"}
"""What is divided over data-parallel devices, by the name in the table."""

FP32_WEIGHTS = ("fsdp", None)
"""FSDP trainers and plain PyTorch store fp32 weights and no master copy (verl, prime-rl, NeMo RL's DTensor, TRL)."""

RECOMPUTE_BY_DEFAULT = ("verl", "easyr1", "trl", "ms_swift")
"""Frameworks that recompute unless told not to (`enable_gradient_checkpointing`, `gradient_checkpointing`)."""

ENGINE_SHARES = {"verl": 0.5, "nemo_rl": 0.6, "ms_swift": 0.9}
"""`gpu_memory_utilization` where it is not set (as in `memory/stated/`; ms-swift: `Command-line-parameters.md`)."""

LORA_RANK = 32
"""Where adapters are trained and the rank is not stated: the least that verl's `ppo_lora.rst` recommends."""

RL_LOGITS = {"prime_rl": 8192 * 8192}
"""Logits that stand at once in RL: tokens times entries of the vocabulary (`trainer/models/layers/lm_head.py`)."""

EXPERT_TENSOR = {"ms_swift": 1, "nemo_rl": 1}
"""Ways each expert is divided beside expert parallelism where Megatron's own default, the tensor-parallel ways, is
overridden (`expert_tensor_parallel_size`)."""

IDLE_FRAMEWORKS = ("nemo_rl", "skyrl", "slime")
"""Frameworks whose colocated trainer waits on the host while the engine works."""

ANSWERS = {"fits": Fits.YES, "does not fit": Fits.NO, "too close to call": Fits.TOO_CLOSE}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """What a case says of its tokens and devices, and whether something that decides is missing."""

    num_devices: int
    longest: int
    micro_tokens: int
    split: int
    is_whole: bool


def footprint_answer(case: MemoryCase) -> Fits:
    """Return the footprint's answer about a labelled case."""
    judged = _judged(case)
    if judged is None:
        return Fits.UNKNOWN
    fit, knows_all = judged
    answer = ANSWERS[fit.answer]
    return answer if knows_all or answer is Fits.NO else Fits.UNKNOWN


def footprint_peak_gib(case: MemoryCase) -> float | None:
    """Return its forecast of the highest memory of one GPU; None where a setting that decides is missing.

    Without an engine the card's size does not enter, so it may be unknown.
    """
    has_size = case.gpu_memory_gb is not None or case.placement != "trainer only"
    judged = _judged(case if has_size else case.model_copy(update={"gpu_type": None, "gpu_memory_gb": 80}))
    if judged is None or not judged[1]:
        return None
    return max(phase.total.value for phase in judged[0].phases) / BYTES_PER_GIB


def _judged(case: MemoryCase) -> tuple[Fit, bool] | None:
    """Return the footprint of the case, and whether all that decides is known; None where it cannot be computed."""
    capacity, given = _capacity(case), _given(case)
    try:
        shape = named_shape(case.model)
    except ModelError:
        return None
    if capacity is None or given is None:
        return None
    train = _train(case, given, shape.vocab_size)
    if train.tensor * train.pipeline * train.context > train.num_devices:
        return None  # a layout that cannot be: the post leaves something out
    engine, has_engine_facts = _engine(case, given)
    layout = JobLayout(train=train, rollout=engine, is_colocated=case.placement != "disaggregated")
    knows_all = given.is_whole and has_engine_facts and case.stage != "ppo"
    return judge(shape, layout, capacity), knows_all


def _capacity(case: MemoryCase) -> Estimate | None:
    if case.gpu_memory_gb is None:
        return None
    if case.gpu_type is not None:
        try:
            return capacity_of(named_device(f"{case.gpu_type} {case.gpu_memory_gb:g}GB"))
        except DeviceError:
            pass  # the stated memory is enough
    num_bytes = REPORTED_FRAC * case.gpu_memory_gb * BYTES_PER_GIB
    return Estimate(value=num_bytes, unit="bytes", source=Source.PUBLISHED, note="as the post counts it")


def _given(case: MemoryCase) -> _Given | None:
    num_devices = case.num_train_gpus if case.num_train_gpus is not None else case.num_gpus
    if num_devices is None:
        return None
    split = case.sequence_parallel or case.train_cp or 1
    longest = case.worst_len
    given = _Given(num_devices=num_devices, longest=1, micro_tokens=1, split=split, is_whole=False)
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


def _train(case: MemoryCase, given: _Given, vocab_size: int) -> TrainLayout:
    sharding = _sharding(case)
    is_fp32, is_megatron = sharding in FP32_WEIGHTS, sharding == "megatron"
    return TrainLayout(
        num_devices=given.num_devices,
        sharding=SHARDINGS[sharding] if sharding is not None else "none",
        tensor=case.train_tp or 1,
        pipeline=case.train_pp or 1,
        context=given.split,
        expert=case.train_ep or 1,
        expert_tensor=_expert_tensor(case, given),
        weight_bytes=4 if is_fp32 else 2,
        has_master=not is_fp32,
        grad_bytes=2 if not is_fp32 and not is_megatron else 4,
        grads_stay=is_megatron,
        weights=_weights_place(case),
        optimizer=_optimizer_place(case),
        reference=Place.DEVICE if case.stage == "dpo" and not case.is_lora else None,
        recompute="none" if case.recompute == "none" else "selective" if case.recompute == "selective" else "full",
        offloads_inputs=case.recompute == "offload",
        has_fused_kernels=is_megatron,
        micro_tokens=given.micro_tokens,
        logits_tokens=_logits_tokens(case, given, vocab_size),
        loss="in_place" if case.framework in ("verl", "easyr1") and not is_megatron else "fp32",
        longest=given.longest,
        lora_rank=case.lora_rank or (LORA_RANK if case.is_lora else None),
    )


def _expert_tensor(case: MemoryCase, given: _Given) -> int | None:
    ways = (case.train_tp or 1) * (case.train_ep or 1) * (case.train_pp or 1)
    return 1 if ways > given.num_devices else EXPERT_TENSOR.get(case.framework)


def _logits_tokens(case: MemoryCase, given: _Given, vocab_size: int) -> int | None:
    if case.framework == "trl" and case.max_response_len is not None:
        return (case.micro_batch or 1) * (case.max_response_len + 1)
    logits = RL_LOGITS.get(case.framework) if case.stage == "rl" else None
    return None if logits is None else min(-(-logits // vocab_size), given.micro_tokens)


def _sharding(case: MemoryCase) -> str | None:
    """Return the table's word; a row that states tensor parallelism and nothing else ran on Megatron."""
    if case.sharding is not None or case.framework == "trl":
        return case.sharding
    return "megatron" if case.train_tp is not None or case.train_ep is not None else "fsdp"


def _waits_on_host(case: MemoryCase) -> bool:
    return case.placement == "colocated" and case.framework in IDLE_FRAMEWORKS


def _weights_place(case: MemoryCase) -> Place:
    return Place.IDLE_HOST if _waits_on_host(case) or case.offload == "params+optimizer" else Place.DEVICE


def _optimizer_place(case: MemoryCase) -> Place:
    if case.offload == "optimizer":
        return Place.HOST
    return Place.IDLE_HOST if _waits_on_host(case) or case.offload == "params+optimizer" else Place.DEVICE


def _engine(case: MemoryCase, given: _Given) -> tuple[RolloutLayout | None, bool]:
    """Return the engine on the trainer's devices, and whether enough is known of it."""
    if case.placement != "colocated" or case.stage not in ("rl", "ppo"):
        return None, True
    share = case.gpu_memory_utilization or ENGINE_SHARES.get(case.framework)
    if share is None:
        return None, case.framework == "trl"  # which generates with the trainer's own weights unless told otherwise
    tensor = case.rollout_tp or (2 if case.framework == "verl" else 1)
    return RolloutLayout(tensor=tensor, share=share, sleeps=case.framework != "trl", longest=given.longest), True
