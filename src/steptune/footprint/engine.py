"""An inference engine on one device: its share, the cache that is left of it, and what remains while it sleeps.

The share is a budget, not a need: weights, a profiling pass and the cache must fit *inside* it, and what does not is
refused at start ("No available memory for the cache blocks"). The surprise: CUDA graphs are outside, and asleep an
engine keeps them and its context.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.layout import RolloutLayout
from steptune.footprint.term import Term, exact
from steptune.shapes.cost import kv_bytes, state_bytes_per_sequence
from steptune.shapes.count import parameters
from steptune.shapes.shape import GroupedAttention, ModelShape

SHARE_SOURCE = "vLLM: `gpu_memory_utilization` is of the whole device; SGLang: `mem_fraction_static` of what is free"
VLLM = "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html"

GRAPHS_BYTES = (0.1 * BYTES_PER_GIB, 1.0 * BYTES_PER_GIB, 2.0 * BYTES_PER_GIB)
"""CUDA graphs. vLLM warned of "1~3 GiB" before it measured them; what its logs report since is 0.2 GiB for 1B
(https://github.com/vllm-project/vllm/pull/11349), 1.4 GiB for a trillion parameters on eight devices
(https://github.com/vllm-project/vllm/issues/47654), at most 1.6 (https://github.com/vllm-project/vllm/pull/39559)."""

CONTEXT_BYTES = (551e6, 551e6 + 411e6, 2 * (551e6 + 411e6))
"""CUDA context, library handles and NCCL buffers of one process: 551 MB and 411 MB
(https://github.com/ai-dynamo/aiconfigurator/blob/main/aic-core/src/aiconfigurator_core/systems/h100_sxm.yaml, which
doubles and more for safety)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """What is left for cache and states inside the share."""

    num_bytes: float
    """Below 0 where weights and the profiling pass alone exceed the share."""
    bytes_per_sequence: float
    """One sequence at its longest."""

    @property
    def sequences(self) -> float:
        """Longest sequences that run at once."""
        return max(0.0, self.num_bytes) / self.bytes_per_sequence if self.bytes_per_sequence else float("inf")


def engine_weights(shape: ModelShape, layout: RolloutLayout) -> Term:
    """Return the weights of one engine device."""
    count = parameters(shape)
    ways = layout.tensor * layout.pipeline
    tables = (count.embedding + count.head) / layout.tensor
    experts = expert_bytes(layout) * count.experts / expert_ways(layout)
    return exact(
        "engine weights", layout.weight_bytes * (tables + count.backbone / ways) + experts, "parameters x bytes"
    )


def expert_ways(layout: RolloutLayout) -> int:
    """Return the devices that the routed experts are divided over."""
    return max(layout.tensor * layout.pipeline * layout.data, layout.expert * layout.pipeline)


def expert_bytes(layout: RolloutLayout) -> float:
    """Return the bytes of one weight of a routed expert."""
    return layout.weight_bytes if layout.expert_bytes is None else layout.expert_bytes


def share_bytes(layout: RolloutLayout, capacity_bytes: float, held_bytes: float) -> float:
    """Return the engine's budget on a device where others hold ``held_bytes``."""
    base = capacity_bytes if layout.share_of == "total" else max(0.0, capacity_bytes - held_bytes)
    return layout.share * base


def pool(shape: ModelShape, layout: RolloutLayout, budget_bytes: float) -> Pool:
    """Return the cache inside the budget, after weights and the largest batch the engine profiles."""
    profiled = layout.batched_tokens * 2.0 * 4 * shape.d_model + layout.max_sequences * shape.vocab_size * 4.0
    free = budget_bytes - engine_weights(shape, layout).mid - profiled
    return Pool(num_bytes=free, bytes_per_sequence=sequence_bytes(shape, layout))


def sequence_bytes(shape: ModelShape, layout: RolloutLayout) -> float:
    """Return cache and states of one sequence at its longest, on one device.

    Tensor parallelism divides key/value heads while there are enough, and latent caches not at all.
    """
    total = 0.0
    for group in shape.layers:
        alone = shape.model_copy(update={"layers": (group,)})
        heads = group.mixer.num_kv_heads if isinstance(group.mixer, GroupedAttention) else 1
        ways = min(layout.tensor, heads)
        total += kv_bytes(alone, layout.longest, 1) * layout.kv_bytes / ways
        total += state_bytes_per_sequence(alone) / layout.tensor
    return total / layout.pipeline


def graphs_term(layout: RolloutLayout) -> Term:
    """Return the CUDA graphs."""
    low, mid, high = GRAPHS_BYTES if layout.has_graphs else (0.0, 0.0, 0.0)
    return Term(name="CUDA graphs", low=low, mid=mid, high=high, source=VLLM)


def context_term(name: str) -> Term:
    """Return context and communication buffers of one process."""
    low, mid, high = CONTEXT_BYTES
    return Term(name=name, low=low, mid=mid, high=high, source="ai-dynamo/aiconfigurator, systems/h100_sxm.yaml")
