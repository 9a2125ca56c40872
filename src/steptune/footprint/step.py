"""What stands on a device only while the optimizer steps, and the buffers DeepSpeed communicates through.

A job can pass its first backward pass and run out here, in its first step: Adam's states appear, and with PyTorch's own
loop over lists of tensors one more copy of them (the root of the second moment), with ZeRO the gradients once more in
fp32. The surprise: activations and logits are gone by then, so the larger of the two moments decides, not the sum.
"""

from steptune.footprint.layout import Place, TrainLayout
from steptune.footprint.term import Term, exact
from steptune.footprint.weights import MASTER_BYTES, stepped
from steptune.shapes.shape import ModelShape

FOREACH = "https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html (`foreach`: about one copy more)"
DEEPSPEED = "https://deepspeed.readthedocs.io/en/latest/memory.html (18 bytes a parameter: gradients twice)"
BUCKETS = (
    "https://github.com/deepspeedai/DeepSpeed/blob/edaa722/deepspeed/runtime/zero/stage_1_and_2.py (`setup_buckets`)"
)

BUCKET_NUMBERS = 5e8
"""Entries of DeepSpeed's `reduce_bucket_size` and `allgather_bucket_size` where they are not set."""

BUCKET_FACTORS = (0.0, 1.0, 2.0)
"""Buckets that stand: none to speak of where Transformers sets the size (hidden size squared), one, and a second one
where reducing overlaps (`setup_buckets`); stage 3 has one, and gathering works in place."""

BF16 = 2


def step_terms(shape: ModelShape, layout: TrainLayout) -> list[Term]:
    """Return what the step adds to weights, gradients and states on the device; nothing where it is done on the host.

    The copy is in the precision of what is stepped: fp32, or 16 bits where weights and states are.
    """
    if layout.step == "fused" or layout.optimizer is Place.HOST:
        return []
    numbers = stepped(shape, layout)
    each = MASTER_BYTES if layout.has_master or layout.lora_rank is not None else layout.weight_bytes
    copy = Term(name="the step's copy", low=0.0, mid=each * numbers, high=each * numbers, source=FOREACH)
    if layout.step == "foreach" or layout.lora_rank is not None:
        return [copy]
    return [exact("fp32 gradients of the step", MASTER_BYTES * numbers, DEEPSPEED), copy]


def bucket_term(layout: TrainLayout) -> Term:
    """Return DeepSpeed's communication buffers, of every trained model's own engine."""
    size = layout.trained_models * BF16 * BUCKET_NUMBERS if layout.step == "deepspeed" else 0.0
    low, mid, high = (factor * size for factor in BUCKET_FACTORS)
    return Term(name="communication buckets", low=low, mid=mid, high=high, source=BUCKETS)
