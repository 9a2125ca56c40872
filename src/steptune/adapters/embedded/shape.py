"""The engine's models as shapes, so that their parameters are counted where every other model's are."""

from steptune.core.model import ExpertFields, HybridFields, ModelSpec
from steptune.envs.vocabulary import MATH
from steptune.shapes.shape import (
    DenseFeedForward,
    Experts,
    FeedForward,
    GatedDelta,
    GroupedAttention,
    Layers,
    Mixer,
    ModelShape,
)


def shape_of_model(model: ModelSpec) -> ModelShape:
    """Return the shape of a model of the engine's families."""
    wide = _feed_forward(model)
    layers: list[Layers] = []
    for mixer, count in _mixers(model):
        if count:
            layers.append(Layers(count=count, mixer=mixer, feed_forward=wide))
    return ModelShape(
        name=model.kind,
        d_model=model.d_model,
        vocab_size=model.padded_vocab or MATH.size,
        is_tied=model.tie_embeddings,
        layers=tuple(layers),
    )


def _mixers(model: ModelSpec) -> list[tuple[Mixer, int]]:
    full = sum(model.has_full_attention(layer) for layer in range(model.num_layers))
    attention = GroupedAttention(
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_width,
        qkv_bias=model.attention_bias,
        out_bias=model.attention_bias,
        qk_norm=model.qk_norm,
        has_gate=model.attention_gate,
    )
    mixers: list[tuple[Mixer, int]] = [(attention, full)]
    if isinstance(model, HybridFields):
        linear = GatedDelta(
            key_heads=model.linear_key_heads,
            value_heads=model.linear_value_heads,
            key_dim=model.linear_key_dim,
            value_dim=model.linear_value_dim,
            conv_width=model.conv_width,
        )
        mixers.append((linear, model.num_layers - full))
    return mixers


def _feed_forward(model: ModelSpec) -> FeedForward:
    if isinstance(model, ExpertFields):
        return Experts(
            num_experts=model.num_experts,
            top_k=model.top_k,
            width=model.d_expert,
            shared_width=model.d_shared_expert or 0,
            has_shared_gate=model.d_shared_expert is not None,
        )
    return DenseFeedForward(width=model.d_ff)
