"""Activations a training pass keeps, by what is recomputed, and the tensors of one layer at work.

The count is that of arXiv 2205.05198 (section 4, 34 bytes a token and unit of width for a GPT layer), carried over to
gated feed-forwards, grouped heads, experts and recurrent layers: two bytes for every tensor an operator needs again in
its backward pass. Attention scores are not kept: FlashAttention recomputes them (arXiv 2205.14135), so "selective"
recompute of the attention saves nothing here; where the kernel is not known, the upper bound has them. Eager PyTorch
keeps more: fp32 copies in norms, the unrotated queries, the activation beside its product. A fused norm never keeps
copies (Transformer Engine's and Liger's save their input and one number a token); rotation and activation are switches
of their own, so where kernels are known to be fused the upper bound has the latter two and not the norms.
"""

from typing import assert_never

from steptune.footprint.layout import TrainLayout
from steptune.footprint.term import Term
from steptune.shapes.shape import (
    DenseFeedForward,
    Experts,
    FeedForward,
    GatedDelta,
    GroupedAttention,
    LatentAttention,
    Mamba2,
    Mixer,
    ModelShape,
)

SOURCE = "arXiv 2205.05198, section 4, carried over to the model's layers; scores recomputed (arXiv 2205.14135)"

BF16 = 2
FP32 = 4

NORM_COPIES_BYTES = 8
"""Bytes a unit of width that an eager RMSNorm keeps beside its input: an fp32 copy and its fp32 product
(`LlamaRMSNorm` in transformers)."""

STATE_CHUNK_TOKENS = 64
"""Tokens after which a linear-attention kernel stores its state for the backward pass (flash-linear-attention's
`chunk_size`)."""

OPERATORS = "torchtitan, `distributed/activation_checkpoint.py`: attention and every second matrix product are kept"

KEPT_OPERATORS_FRAC = (0.4, 0.5, 0.6)
"""Part of the activations that is kept where every second matrix product is computed again: 63 of about 120 kB a token
and layer of Llama-3-8B, by hand; the order of a layer's products decides which half."""

SCORE_BYTES = 6
"""Bytes an attention score keeps for the backward pass: the softmax in fp32 and its 16-bit copy
(`eager_attention_forward` of transformers' `modeling_llama.py`)."""

Parts = tuple[float, float, float]
"""Bytes a token: as wide as the model, divided by tensor parallelism, and what eager kernels add to the latter."""


def kept_term(shape: ModelShape, layout: TrainLayout, tokens: float) -> Term:
    """Return what the forward pass of one micro-batch of ``tokens`` (per device, after `context`) keeps.

    With full recompute only the inputs of the layers. A pipeline's first stage has as many micro-batches in flight as
    there are stages, so it keeps as much as one device with all layers would (arXiv 2205.05198, section 4.2.3).
    """
    if layout.recompute == "full":
        inputs = shape.num_layers * BF16 * shape.d_model * tokens / _width_ways(layout)
        kept = 0.0 if layout.offloads_inputs else inputs
        return Term(name="layer inputs", low=kept, mid=kept, high=kept, source=SOURCE)
    low = tokens * sum(
        group.count * _fused(_layer(group.mixer, group.feed_forward, shape), layout) for group in shape.layers
    )
    if layout.recompute == "operators":
        kept = (frac * low for frac in KEPT_OPERATORS_FRAC)
        return Term(name="activations", low=next(kept), mid=next(kept), high=next(kept), source=OPERATORS)
    eager = tokens * sum(
        group.count * _eager(_layer(group.mixer, group.feed_forward, shape), layout) for group in shape.layers
    )
    mid = low if layout.has_fused_kernels else eager
    if layout.has_fused_kernels:
        eager -= (
            tokens
            * _norm_copies(shape, layout)
            * sum(
                group.count * ((group.mixer is not None) + (group.feed_forward is not None)) for group in shape.layers
            )
        )
    scores = tokens * _scores(shape, layout) if layout.may_keep_scores else 0.0
    return Term(name="activations", low=low, mid=mid, high=eager + scores, source=SOURCE)


def working_term(shape: ModelShape, layout: TrainLayout, tokens: float, *, with_grads: bool) -> Term:
    """Return the tensors of the largest layer while it runs; with gradients at most twice that."""
    layers = [_layer(group.mixer, group.feed_forward, shape) for group in shape.layers]
    low = tokens * max(_fused(one, layout) for one in layers)
    eager = tokens * max(_eager(one, layout) for one in layers)
    mid = low if layout.has_fused_kernels else eager
    if layout.has_fused_kernels:
        largest = max(shape.layers, key=lambda group: _eager(_layer(group.mixer, group.feed_forward, shape), layout))
        num_norms = (largest.mixer is not None) + (largest.feed_forward is not None)
        eager = max(eager - tokens * num_norms * _norm_copies(shape, layout), low)
    return Term(name="one layer at work", low=low, mid=mid, high=2 * eager if with_grads else eager, source=SOURCE)


def _norm_copies(shape: ModelShape, layout: TrainLayout) -> float:
    """Return the bytes a token that one eager norm keeps."""
    return NORM_COPIES_BYTES * shape.d_model / layout.tensor


def _scores(shape: ModelShape, layout: TrainLayout) -> float:
    heads = sum(
        group.count * group.mixer.num_heads
        for group in shape.layers
        if isinstance(group.mixer, GroupedAttention | LatentAttention)
    )
    return SCORE_BYTES * heads * layout.longest / (layout.tensor * layout.context)


def _layer(mixer: Mixer | None, feed_forward: FeedForward | None, shape: ModelShape) -> Parts:
    mix, wide = _mixer(mixer, shape.d_model), _feed_forward(feed_forward, shape.d_model)
    return mix[0] + wide[0], mix[1] + wide[1], mix[2] + wide[2]


def _mixer(mixer: Mixer | None, d_model: int) -> Parts:
    around = 2.0 * BF16 * d_model  # the norm's input and its output
    copies = float(NORM_COPIES_BYTES * d_model)
    match mixer:
        case None:
            return 0.0, 0.0, 0.0
        case GroupedAttention():
            queries, keys = mixer.num_heads * mixer.head_dim, mixer.num_kv_heads * mixer.head_dim
            gate = queries if mixer.has_gate else 0
            inner = BF16 * (2 * queries + 2 * keys + gate) + FP32 * mixer.num_heads
            return around, float(inner), copies + BF16 * (queries + keys) * (1 + mixer.qk_norm)
        case LatentAttention():
            wide = mixer.num_heads * (mixer.nope_dim + mixer.rope_dim)
            values = mixer.num_heads * mixer.value_dim
            low_rank = (mixer.q_rank or 0) + mixer.kv_rank + mixer.rope_dim
            indexer = (mixer.index_heads + 1) * mixer.index_dim if mixer.index_heads else 0
            inner = BF16 * (2 * wide + 2 * values + indexer) + FP32 * mixer.num_heads
            return around + 2.0 * BF16 * low_rank, float(inner), copies + BF16 * wide
        case GatedDelta():
            values = mixer.value_heads * mixer.value_dim
            channels = 2 * mixer.key_heads * mixer.key_dim + values
            state = mixer.value_heads * mixer.key_dim * mixer.value_dim / STATE_CHUNK_TOKENS
            return around, BF16 * (2 * channels + 3 * values + state), copies + FP32 * values
        case Mamba2():
            inner = mixer.heads * mixer.head_dim
            channels = inner + 2 * mixer.groups * mixer.state
            state = inner * mixer.state / STATE_CHUNK_TOKENS
            return around, BF16 * (2 * channels + 3 * inner) + FP32 * state, copies + FP32 * inner
        case _:
            assert_never(mixer)


def _feed_forward(feed_forward: FeedForward | None, d_model: int) -> Parts:
    around, copies = 2.0 * BF16 * d_model, float(NORM_COPIES_BYTES * d_model)
    match feed_forward:
        case None:
            return 0.0, 0.0, 0.0
        case DenseFeedForward():
            tensors = 3 if feed_forward.is_gated else 2
            return around, float(BF16 * tensors * feed_forward.width), copies + BF16 * feed_forward.width
        case Experts():
            tensors = 3 if feed_forward.is_gated else 2
            moved = feed_forward.latent_width or d_model
            # every copy of a token is moved to its expert and back
            routed = feed_forward.top_k * BF16 * (tensors * feed_forward.width + 2 * moved)
            inner = routed + BF16 * tensors * feed_forward.shared_width + FP32 * feed_forward.num_experts
            added = BF16 * (feed_forward.top_k * feed_forward.width + feed_forward.shared_width)
            return around, float(inner), copies + added
        case _:
            assert_never(feed_forward)


def _fused(parts: Parts, layout: TrainLayout) -> float:
    return parts[0] / _width_ways(layout) + parts[1] / layout.tensor


def _eager(parts: Parts, layout: TrainLayout) -> float:
    return parts[0] / _width_ways(layout) + (parts[1] + parts[2]) / layout.tensor


def _width_ways(layout: TrainLayout) -> int:
    return layout.tensor if layout.sequence_parallel else 1
