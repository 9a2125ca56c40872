"""Weights, gradients and optimizer states of one training device.

Published arithmetic: 2 + 2 + 12 bytes a parameter for mixed-precision Adam (ZeRO, arXiv 1910.02054, section 3.1), 18 or
6 + 12/d with fp32 gradients (Megatron-LM, docs/api-guide/core/dist_optimizer). The surprise: experts are divided by
expert parallelism and the rest by tensor parallelism, so that each has its own number of data-parallel copies.
"""

from dataclasses import dataclass
from typing import final

from steptune.footprint.layout import TrainLayout
from steptune.footprint.term import Term, exact
from steptune.shapes.count import Parameters, adapter_parameters, layer_matrices, layer_vectors, parameters
from steptune.shapes.shape import ModelShape

ZERO = "arXiv 1910.02054, section 3.1 (ZeRO)"
FSDP = "arXiv 2304.11277 (FSDP): a unit is gathered while it is used, the next one while it is waited for"

AUTOCAST = "https://docs.pytorch.org/docs/stable/amp.html (`cache_enabled`: casts are kept within the context)"

GATHERED_BYTES = 2
"""Bytes of a gathered weight: computed in bf16 whatever is stored."""

MASTER_BYTES = 4
"""Bytes of an fp32 master weight."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """Parameters one device holds before data-parallel sharding, and over how many devices that divides them."""

    dense: float
    experts: float
    dense_ways: float
    expert_ways: float

    def sharded(self) -> float:
        """Return the parameters that remain after sharding."""
        return self.dense / self.dense_ways + self.experts / self.expert_ways

    @property
    def whole(self) -> float:
        """Parameters without sharding."""
        return self.dense + self.experts


def local_parameters(shape: ModelShape, layout: TrainLayout) -> Local:
    """Return what the fullest device holds: with a pipeline the first or last stage, whichever table is larger."""
    count = parameters(shape)
    tables = max(count.embedding, count.head) if layout.pipeline > 1 else count.embedding + count.head
    expert_split = layout.expert * (layout.expert_tensor or layout.tensor) * layout.pipeline
    dense_split = layout.tensor * layout.pipeline
    return Local(
        dense=tables / layout.tensor + count.backbone / dense_split,
        experts=count.experts / expert_split,
        dense_ways=_ways(layout, dense_split),
        expert_ways=_ways(layout, expert_split),
    )


def weight_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return the stored weights of one device, of every model that is trained there."""
    local = local_parameters(shape, layout)
    kept = local.sharded() if layout.sharding == "full" else local.whole
    num_bytes = kept * layout.weight_bytes
    if layout.table_bytes is not None:
        count = parameters(shape)
        ways = layout.tensor * (local.dense_ways if layout.sharding == "full" else 1)
        num_bytes += (layout.table_bytes - layout.weight_bytes) * (count.embedding + count.head) / ways
    return exact("weights", layout.trained_models * num_bytes, ZERO)


def frozen_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return the models that are only asked, whole on every device unless weights are sharded, in bf16."""
    return exact("frozen models", layout.frozen_models * reference_term(shape, layout).mid, ZERO)


def casts_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return autocast's 16-bit copies of the fp32 weights, which the backward pass needs again."""
    whole = local_parameters(shape, layout).whole if layout.has_casts else 0.0
    return Term(name="cast weights", low=0.0, mid=GATHERED_BYTES * whole, high=GATHERED_BYTES * whole, source=AUTOCAST)


def gathered_term(shape: ModelShape, layout: TrainLayout, *, with_grads: bool) -> Term:
    """Return what full sharding gathers at once: embedding and head, two layers, and with gradients those of one.

    The embedding and head are the outermost unit and stay gathered; the bounds leave out the second layer, or add the
    gradients of embedding and head.
    """
    if layout.sharding != "full" or local_parameters(shape, layout).dense_ways == 1:
        return exact("gathered weights", 0, FSDP)
    count = parameters(shape)
    tables = GATHERED_BYTES * (count.embedding + count.head) / layout.tensor
    layer = GATHERED_BYTES * _largest_layer(shape, layout)
    grads = layer if with_grads else 0.0
    return Term(
        name="gathered weights",
        low=tables + layer + grads,
        mid=tables + 2 * layer + grads,
        high=tables * (2 if with_grads else 1) + 2 * layer + grads,
        source=FSDP,
    )


def gradient_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return the gradients of one device."""
    if layout.lora_rank is not None:
        return exact("gradients", _adapters(shape, layout) * layout.grad_bytes, "arXiv 2106.09685 (LoRA)")
    local = local_parameters(shape, layout)
    kept = local.sharded() if layout.sharding in ("gradients", "full") else local.whole
    return exact("gradients", kept * layout.grad_bytes, ZERO)


def optimizer_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return master weights and optimizer states of one device."""
    each = layout.optimizer_bytes + (MASTER_BYTES if layout.has_master else 0)
    if layout.lora_rank is not None:
        return exact("optimizer", _adapters(shape, layout) * each, "arXiv 2106.09685 (LoRA)")
    local = local_parameters(shape, layout)
    kept = local.whole if layout.sharding == "none" else local.sharded()
    return exact("optimizer", layout.trained_models * kept * each, ZERO)


def reference_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return the weights of a reference model, laid out as the policy and kept in bf16."""
    local = local_parameters(shape, layout)
    kept = local.sharded() if layout.sharding == "full" else local.whole
    return exact("reference model", kept * GATHERED_BYTES, ZERO)


def adapter_term(shape: ModelShape, layout: TrainLayout) -> Term:
    """Return the adapters beside the frozen weights; none without LoRA."""
    numbers = 0.0 if layout.lora_rank is None else _adapters(shape, layout)
    return exact("adapters", numbers * MASTER_BYTES, "arXiv 2106.09685 (LoRA)")


def largest_table_bytes(count: Parameters) -> float:
    """Return the bytes of the largest single tensor in bf16: the embedding."""
    return float(GATHERED_BYTES * count.embedding)


def stepped(shape: ModelShape, layout: TrainLayout) -> float:
    """Return the parameters whose states one device steps."""
    if layout.lora_rank is not None:
        return _adapters(shape, layout)
    local = local_parameters(shape, layout)
    return local.whole if layout.sharding == "none" else local.sharded()


def _adapters(shape: ModelShape, layout: TrainLayout) -> float:
    whole = adapter_parameters(shape, layout.lora_rank or 1) / (layout.tensor * layout.pipeline)
    return whole / (_ways(layout, layout.tensor * layout.pipeline) if layout.sharding == "full" else 1)


def _largest_layer(shape: ModelShape, layout: TrainLayout) -> float:
    """Return the parameters of the largest layer on one device."""
    split = layout.expert * (layout.expert_tensor or layout.tensor)
    sizes: list[float] = []
    for group in shape.layers:
        matrices = layer_matrices(group, shape.d_model)
        dense = sum(one.numbers for one in matrices if not one.is_expert) + layer_vectors(group, shape.d_model)
        sizes.append(dense / layout.tensor + sum(one.numbers for one in matrices if one.is_expert) / split)
    return max(sizes)


def _ways(layout: TrainLayout, split: int) -> float:
    copies = max(1.0, layout.num_devices / split)
    return copies if layout.shard_ways is None else min(copies, float(layout.shard_ways))
