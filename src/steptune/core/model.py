"""The model families a job can name: one record each, told apart by `kind`.

The fields of the attention are shared by all of them. The surprise: `head_dim` may be left out, and is then
`d_model` / `num_heads` as in Llama; Qwen3 sets it apart.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from steptune.core.pretrained import Pretrained
from steptune.core.records import Record

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Llama3Rope(Record):
    """Llama 3.1's stretch of the slow rotary frequencies to a longer context.

    Example: Llama-3.2-1B has ``Llama3Rope(factor=32.0)``.
    """

    kind: Literal["llama3"] = "llama3"
    factor: PositiveFloat
    """How much longer than `original_max_positions` the context is."""
    low_freq_factor: PositiveFloat = 1.0
    """Wavelengths above `original_max_positions` / this are stretched by the whole factor."""
    high_freq_factor: PositiveFloat = 4.0
    """Wavelengths below `original_max_positions` / this are left alone; between the two it is a blend."""
    original_max_positions: PositiveInt = 8192


class DecoderModel(Record):
    """What every family shares: grouped-query attention with rotary positions, RMSNorm, embeddings. Abstract."""

    num_layers: PositiveInt = 3
    d_model: PositiveInt = 192
    num_heads: PositiveInt = 6
    num_kv_heads: PositiveInt = 2
    head_dim: PositiveInt | None = None
    """Width of an attention head; None is `d_model` / `num_heads`."""
    qk_norm: bool = False
    """RMSNorm over each query and key head before the rotation (Qwen3)."""
    attention_bias: bool = False
    """Biases on the attention's four projections."""
    rope_theta: PositiveFloat = 10_000.0
    rope_scaling: Llama3Rope | None = None
    norm_eps: PositiveFloat = 1e-6
    tie_embeddings: bool = True
    """Whether the output head is the input embedding."""
    padded_vocab: PositiveInt | None = None
    """Rows of the embedding; None is the tokenizer's size. More rows cost what a large vocabulary costs."""
    attention_gate: bool = False
    """A sigmoid gate on the attention's output, as wide as it, from the layer's input (Qwen3.5)."""
    rotary_frac: Fraction = 1.0
    """Part of every head that is rotated, from its first number on."""
    pretrained: Pretrained | None = None
    """Where weights and vocabulary come from; None: random weights, and the workload's own vocabulary."""

    def embedding_rows(self, vocab_size: int) -> int:
        """Return how many token ids the model can read and write, for a tokenizer of ``vocab_size``."""
        return max(vocab_size, self.padded_vocab or 0)

    def has_full_attention(self, layer: int) -> bool:
        """Return whether a layer attends to keys and values (True of all but hybrids)."""
        every = self.full_attention_every if isinstance(self, HybridFields) else 1
        return (layer + 1) % every == 0

    @property
    def rotary_width(self) -> int:
        """Numbers of a head that are rotated: an even number."""
        return 2 * round(self.head_width * self.rotary_frac / 2)

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def kv_width(self) -> int:
        """Keys (or values) of one position in one layer."""
        return self.num_kv_heads * self.head_width


class DenseModel(DecoderModel):
    """A decoder-only transformer with SwiGLU feed-forward (Llama, Qwen3).

    Example: 3 layers of width 192 with 6 query and 2 key/value heads: about 1.0 M parameters.
    """

    kind: Literal["dense"] = "dense"
    d_ff: PositiveInt = 384


class ExpertFields(DecoderModel):
    """A mixture of experts in every layer's feed-forward. Abstract."""

    num_experts: PositiveInt = 8
    top_k: PositiveInt = 2
    """Experts per token."""
    d_expert: PositiveInt = 192
    norm_topk_prob: bool = True
    """Whether the chosen experts' probabilities are scaled to sum to 1."""
    d_shared_expert: PositiveInt | None = None
    """Width of an expert every token takes, weighted by a sigmoid gate of its own; None is no such expert."""


class MoEModel(ExpertFields):
    """A mixture of experts in every layer (Qwen3-MoE; with `d_shared_expert` the feed-forward of Qwen3.5-MoE).

    Example: Qwen3-30B-A3B has 128 experts of width 768, 8 of them per token.
    """

    kind: Literal["moe"] = "moe"
    qk_norm: bool = True


class HybridFields(DecoderModel):
    """Linear attention by the gated delta rule, with full attention in every fourth layer (Qwen3.5). Abstract."""

    num_layers: PositiveInt = 4
    qk_norm: bool = True
    attention_gate: bool = True
    rotary_frac: Fraction = 0.25
    full_attention_every: PositiveInt = 4
    """Layers i with (i + 1) divisible by this have full attention, the others the gated delta rule."""
    linear_key_heads: PositiveInt = 4
    linear_value_heads: PositiveInt = 8
    """A multiple of `linear_key_heads`: neighbouring value heads share a key head."""
    linear_key_dim: PositiveInt = 24
    linear_value_dim: PositiveInt = 24
    conv_width: PositiveInt = 4
    """Positions the short convolution sees, its own included."""

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: queries, keys and values of the linear attention."""
        keys = self.linear_key_heads * self.linear_key_dim
        return 2 * keys + self.linear_value_heads * self.linear_value_dim

    @property
    def state_numbers(self) -> int:
        """Numbers of the fixed state one sequence needs in one linear layer: memory and convolution."""
        memory = self.linear_value_heads * self.linear_key_dim * self.linear_value_dim
        return memory + (self.conv_width - 1) * self.conv_channels


class HybridModel(HybridFields):
    """A hybrid with dense feed-forward.

    Example: Qwen3.5-27B has 64 layers of width 5120, 48 of them linear with 16 key and 48 value heads of 128.
    """

    kind: Literal["hybrid"] = "hybrid"
    d_ff: PositiveInt = 384


class HybridMoEModel(HybridFields, ExpertFields):
    """A hybrid with a mixture of experts.

    Example: Qwen3.6-35B-A3B has 40 layers of width 2048 and 256 experts of width 512, 8 per token, one shared.
    """

    kind: Literal["hybrid_moe"] = "hybrid_moe"


def _kind(model: object) -> str | None:
    """Return the tag of a model; a table that does not say is dense."""
    return model.get("kind", "dense") if isinstance(model, dict) else getattr(model, "kind", None)


ModelSpec = Annotated[
    Annotated[DenseModel, Tag("dense")]
    | Annotated[MoEModel, Tag("moe")]
    | Annotated[HybridModel, Tag("hybrid")]
    | Annotated[HybridMoEModel, Tag("hybrid_moe")],
    Discriminator(_kind),
]
"""Any family."""
