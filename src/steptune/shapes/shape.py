"""The shape of a language model: what its layers are made of, in the numbers its `config.json` publishes.

Layers that are alike are counted, not listed, since their order changes neither bytes nor FLOPs. The surprise: a layer
may have no feed-forward or no mixer at all (Nemotron-H stacks them one by one).

Letters in names: ``rank`` is the width of a low-rank bottleneck, ``head_dim`` the width of one head.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.records import Record

PositiveInt = Annotated[int, Field(gt=0)]


class GroupedAttention(Record):
    """Softmax attention with grouped keys and values (GQA; MHA and MQA are its ends).

    Example: Qwen2.5-7B has ``GroupedAttention(num_heads=28, num_kv_heads=4, head_dim=128, qkv_bias=True)``.
    """

    kind: Literal["grouped"] = "grouped"
    num_heads: PositiveInt
    num_kv_heads: PositiveInt
    head_dim: PositiveInt
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    """RMSNorm over each query and key head."""
    has_gate: bool = False
    """A sigmoid gate as wide as the queries, from the layer's input (Qwen3-Next, Qwen3.5)."""
    has_sinks: bool = False
    """One learnt number a head beside the keys (gpt-oss)."""
    window: PositiveInt | None = None
    """Keys a query sees; None is all. Only these stay in the cache."""


class LatentAttention(Record):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache keeps one latent and one rotary key.

    Example: DeepSeek-V3 has ``LatentAttention(num_heads=128, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64,
    value_dim=128)``.
    """

    kind: Literal["latent"] = "latent"
    num_heads: PositiveInt
    q_rank: PositiveInt | None
    """Width of the query bottleneck; None where queries are projected at once (V2-Lite)."""
    kv_rank: PositiveInt
    nope_dim: PositiveInt
    rope_dim: PositiveInt
    value_dim: PositiveInt
    index_heads: int = 0
    """Heads of an indexer that chooses the keys a query sees (DeepSeek-V3.2, GLM-5); 0 is none."""
    index_dim: int = 0
    """Width of an indexer's head, and numbers of its key in the cache."""
    index_keys: PositiveInt | None = None
    """Keys a query sees at the most; None is all."""


class GatedDelta(Record):
    """Linear attention by the gated delta rule (Qwen3-Next, Qwen3.5): a fixed state instead of a cache.

    Example: Qwen3.5-27B has ``GatedDelta(key_heads=16, value_heads=48, key_dim=128, value_dim=128, conv_width=4)``.
    """

    kind: Literal["gated_delta"] = "gated_delta"
    key_heads: PositiveInt
    value_heads: PositiveInt
    key_dim: PositiveInt
    value_dim: PositiveInt
    conv_width: PositiveInt


class Mamba2(Record):
    """A Mamba-2 mixer (Nemotron-H): a fixed state of ``heads x head_dim x state`` numbers.

    Example: Nemotron-3-Nano has ``Mamba2(heads=64, head_dim=64, state=128, groups=8, conv_width=4)``.
    """

    kind: Literal["mamba2"] = "mamba2"
    heads: PositiveInt
    head_dim: PositiveInt
    state: PositiveInt
    groups: PositiveInt
    conv_width: PositiveInt


Mixer = Annotated[GroupedAttention | LatentAttention | GatedDelta | Mamba2, Field(discriminator="kind")]
"""What moves information between positions."""


class DenseFeedForward(Record):
    """A feed-forward every token takes: ``DenseFeedForward(width=18944)`` is Qwen2.5-7B's."""

    kind: Literal["dense"] = "dense"
    width: PositiveInt
    is_gated: bool = True
    """Two matrices in and one out (SwiGLU); False is one in and one out."""


class Experts(Record):
    """A mixture of experts.

    Example: Qwen3-30B-A3B has ``Experts(num_experts=128, top_k=8, width=768)``; DeepSeek-V3 adds ``shared_width=2048``.
    """

    kind: Literal["experts"] = "experts"
    num_experts: PositiveInt
    top_k: PositiveInt
    width: PositiveInt
    shared_width: int = 0
    """Width of all experts that every token takes, together; 0 is none."""
    has_shared_gate: bool = False
    """A sigmoid weight for the shared expert, from the layer's input (Qwen)."""
    is_gated: bool = True
    has_bias: bool = False
    """Biases on router and experts (gpt-oss)."""
    latent_width: int = 0
    """Width into which the routed experts' input is projected and out of which their output is (Nemotron-3-Super);
    0 is the model's own."""
    has_router_bias: bool = False
    """One number an expert that only steers the choice (DeepSeek-V3, GLM-4.5)."""


FeedForward = Annotated[DenseFeedForward | Experts, Field(discriminator="kind")]


class Layers(Record):
    """A number of layers that are alike."""

    count: PositiveInt
    mixer: Mixer | None
    feed_forward: FeedForward | None
    num_norms: int = 2
    """RMSNorm weights of the model's width: 2 usually, 4 in Gemma 2 and 3, 1 in Nemotron-H."""


class ModelShape(Record):
    """The text part of a model.

    Example: Qwen2.5-7B is 28 layers of width 3584 over 152,064 tokens, head and embedding apart: 7.6e9 parameters.
    """

    name: str
    d_model: PositiveInt
    vocab_size: PositiveInt
    is_tied: bool
    """Whether the output head is the input embedding."""
    layers: tuple[Layers, ...]
    omits: tuple[str, ...] = ()
    """Parts of the checkpoint that are not counted: a vision tower, layers that predict further tokens."""

    @property
    def num_layers(self) -> int:
        """Layers of the decoder."""
        return sum(group.count for group in self.layers)
