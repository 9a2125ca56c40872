"""What a model costs per token or sequence: cache and state bytes, FLOPs, logits.

The surprise: a window or a recurrent layer stops growing with the sequence, so bytes are given for a *length*, and
per token only for what keeps growing.
"""

from typing import assert_never

from steptune.shapes.count import layer_matrices
from steptune.shapes.shape import GatedDelta, GroupedAttention, LatentAttention, Mamba2, Mixer, ModelShape

BYTES_FP32 = 4
"""Bytes of a float32: recurrent states are kept in it (`mamba_ssm_dtype` of Qwen3.5's config.json)."""

BYTES_BF16 = 2
"""Bytes of a bfloat16."""

TRAINING_OVER_FORWARD = 3
"""Training FLOPs over forward FLOPs: the backward pass is two more (arXiv 2001.08361, section 2.1)."""


def kv_bytes_per_token(shape: ModelShape, bytes_each: int = BYTES_BF16) -> int:
    """Return cache bytes one more token adds to a long sequence: layers without a window.

    Grouped: 2 * kv heads * head_dim numbers a layer; latent: kv_rank + rope_dim (arXiv 2405.04434, table 1).
    """
    return bytes_each * sum(
        group.count * _cache_numbers(group.mixer) for group in shape.layers if _window(group.mixer) is None
    )


def kv_bytes(shape: ModelShape, num_tokens: int, bytes_each: int = BYTES_BF16) -> int:
    """Return cache bytes of one sequence of ``num_tokens``, windows counted up to their width."""
    total = 0
    for group in shape.layers:
        window = _window(group.mixer)
        kept = num_tokens if window is None else min(num_tokens, window)
        total += group.count * _cache_numbers(group.mixer) * kept
    return bytes_each * total


def state_bytes_per_sequence(shape: ModelShape) -> int:
    """Return bytes of the recurrent states of one sequence, whatever its length; 0 without recurrent layers.

    The memory is fp32, the inputs a short convolution still needs are bf16.
    """
    return sum(group.count * _state_bytes(group.mixer) for group in shape.layers)


def forward_flop_per_token(shape: ModelShape, context: float, *, with_head: bool = True) -> float:
    """Return FLOPs of one token that attends to ``context`` keys: 2 a parameter met, and the attention's products.

    Attention: 2 * (query-key width + value width) * heads * keys, keys at most the window. For a whole sequence of S
    tokens the mean context of a causal model is (S + 1) / 2. Source: arXiv 2001.08361 section 2.1, arXiv 2205.05198
    appendix A. The embedding is a look-up and costs nothing.
    """
    total = 2.0 * shape.vocab_size * shape.d_model if with_head else 0.0
    for group in shape.layers:
        weights = sum(one.active_numbers for one in layer_matrices(group, shape.d_model))
        total += group.count * (2.0 * weights + _mixing_flop(group.mixer, context))
    return total


def training_flop_per_token(shape: ModelShape, length: int, *, recompute: bool = False) -> float:
    """Return FLOPs of forward and backward for one token of a causal sequence of ``length``, mean over its tokens.

    ``recompute`` adds the second forward of full recomputation.
    """
    passes = TRAINING_OVER_FORWARD + (1 if recompute else 0)
    return passes * forward_flop_per_token(shape, (length + 1) / 2)


def logits_bytes_per_token(shape: ModelShape, bytes_each: int = BYTES_FP32) -> int:
    """Return bytes of one copy of one token's logits."""
    return shape.vocab_size * bytes_each


def _cache_numbers(mixer: Mixer | None) -> int:
    match mixer:
        case GroupedAttention():
            return 2 * mixer.num_kv_heads * mixer.head_dim
        case LatentAttention():
            return mixer.kv_rank + mixer.rope_dim + mixer.index_dim
        case None | GatedDelta() | Mamba2():
            return 0
        case _:
            assert_never(mixer)


def _window(mixer: Mixer | None) -> int | None:
    return mixer.window if isinstance(mixer, GroupedAttention) else None


def _state_bytes(mixer: Mixer | None) -> int:
    match mixer:
        case GatedDelta():
            memory = mixer.value_heads * mixer.key_dim * mixer.value_dim
            channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
        case Mamba2():
            memory = mixer.heads * mixer.head_dim * mixer.state
            channels = mixer.heads * mixer.head_dim + 2 * mixer.groups * mixer.state
        case None | GroupedAttention() | LatentAttention():
            return 0
        case _:
            assert_never(mixer)
    return BYTES_FP32 * memory + BYTES_BF16 * (mixer.conv_width - 1) * channels


def _mixing_flop(mixer: Mixer | None, context: float) -> float:
    """Return FLOPs of one token beside the projections: products with keys and values, or a state's update and read.

    A state of K x V numbers is decayed, read, corrected and written (gated delta rule, arXiv 2412.06464: about 8 FLOPs
    a number); Mamba-2 decays, writes and reads (about 6).
    """
    match mixer:
        case None:
            return 0.0
        case GroupedAttention():
            keys = context if mixer.window is None else min(context, mixer.window)
            return 4.0 * mixer.num_heads * mixer.head_dim * keys
        case LatentAttention():
            width = mixer.nope_dim + mixer.rope_dim + mixer.value_dim
            keys = context if mixer.index_keys is None else min(context, mixer.index_keys)
            return 2.0 * (mixer.num_heads * width * keys + mixer.index_heads * mixer.index_dim * context)
        case GatedDelta():
            return 8.0 * mixer.value_heads * mixer.key_dim * mixer.value_dim
        case Mamba2():
            return 6.0 * mixer.heads * mixer.head_dim * mixer.state
        case _:
            assert_never(mixer)
