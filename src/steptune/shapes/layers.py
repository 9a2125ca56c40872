"""The layers of every known `model_type`, from the fields of its `config.json`.

Each reader is one architecture as its class in `transformers` builds it. The surprise: what is not in the file is the
class's own default, and these differ (a Llama ties nothing unless told, a Gemma always does).
"""

from collections import Counter
from collections.abc import Sequence

from steptune.core.errors import ModelError, explain
from steptune.shapes.fields import Fields
from steptune.shapes.shape import (
    DenseFeedForward,
    Experts,
    FeedForward,
    GatedDelta,
    GroupedAttention,
    LatentAttention,
    Layers,
    Mamba2,
    Mixer,
)

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
"""Words of `layer_types`."""


def dense_layers(fields: Fields) -> tuple[Layers, ...]:
    """Llama, Mistral, Qwen2, Qwen3, Seed-OSS: one kind of layer, told apart by biases and norms of the heads."""
    family = _family(fields)
    is_qwen2 = family in ("qwen2", "qwen2_5_vl_text", "qwen2_vl_text", "qwen2_5_vl", "qwen2_vl")
    bias = is_qwen2 or fields.flag("attention_bias", default=family == "seed_oss")
    out_bias = fields.flag("attention_out_bias", default=bias and not is_qwen2 and family != "seed_oss")
    attention = GroupedAttention(
        num_heads=fields.size("num_attention_heads"),
        num_kv_heads=_kv_heads(fields),
        head_dim=_head_dim(fields, is_required=family.startswith("qwen3")),
        qkv_bias=bias,
        out_bias=out_bias,
        qk_norm=family.startswith("qwen3"),
        window=_mistral_window(fields) if family == "mistral" else None,
    )
    feed_forward = DenseFeedForward(width=fields.size("intermediate_size"))
    return (Layers(count=fields.size("num_hidden_layers"), mixer=attention, feed_forward=feed_forward),)


def gemma_layers(fields: Fields) -> tuple[Layers, ...]:
    """Gemma 1 to 3: from the second on half or five of six layers see a window, and four norms a layer."""
    family = _family(fields)
    num_layers = fields.size("num_hidden_layers")
    every = {"gemma": 1, "gemma2": 2}.get(family, fields.size_or(6, "sliding_window_pattern"))
    types = fields.words("layer_types") or tuple(FULL if (i + 1) % every == 0 else SLIDING for i in range(num_layers))
    feed_forward = DenseFeedForward(width=fields.size("intermediate_size"))

    def mixer(kind: str) -> Mixer:
        return GroupedAttention(
            num_heads=fields.size("num_attention_heads"),
            num_kv_heads=_kv_heads(fields),
            head_dim=fields.size("head_dim"),
            qk_norm=family.startswith("gemma3"),
            window=fields.size("sliding_window") if kind == SLIDING else None,
        )

    norms = 2 if family == "gemma" else 4
    return _counted([(mixer(kind), feed_forward) for kind in _checked_types(fields, types, (FULL, SLIDING))], norms)


def mixtral_layers(fields: Fields) -> tuple[Layers, ...]:
    """Mixtral: every feed-forward is a choice of experts as wide as a dense one."""
    attention = GroupedAttention(
        num_heads=fields.size("num_attention_heads"), num_kv_heads=_kv_heads(fields), head_dim=_head_dim(fields)
    )
    experts = Experts(
        num_experts=fields.size("num_local_experts"),
        top_k=fields.size("num_experts_per_tok"),
        width=fields.size("intermediate_size"),
    )
    return (Layers(count=fields.size("num_hidden_layers"), mixer=attention, feed_forward=experts),)


def minimax_layers(fields: Fields) -> tuple[Layers, ...]:
    """MiniMax-M2: grouped attention, normed heads, and a choice of small experts in every layer."""
    attention = GroupedAttention(
        num_heads=fields.size("num_attention_heads"),
        num_kv_heads=_kv_heads(fields),
        head_dim=_head_dim(fields, is_required=True),
        qk_norm=fields.flag("use_qk_norm", default=True),
    )
    experts = Experts(
        num_experts=fields.size("num_local_experts"),
        top_k=fields.size("num_experts_per_tok"),
        width=fields.size("intermediate_size"),
        has_router_bias=fields.flag("use_routing_bias", default=False),
    )
    return (Layers(count=fields.size("num_hidden_layers"), mixer=attention, feed_forward=experts),)


def qwen_moe_layers(fields: Fields) -> tuple[Layers, ...]:
    """Qwen3-MoE: experts in every layer but those that the file names or a step leaves out."""
    attention = GroupedAttention(
        num_heads=fields.size("num_attention_heads"),
        num_kv_heads=_kv_heads(fields),
        head_dim=_head_dim(fields, is_required=True),
        qkv_bias=fields.flag("attention_bias", default=False),
        out_bias=fields.flag("attention_bias", default=False),
        qk_norm=True,
    )
    return _counted([(attention, one) for one in _qwen_experts(fields)])


def qwen_hybrid_layers(fields: Fields) -> tuple[Layers, ...]:
    """Qwen3-Next and Qwen3.5: gated delta rule, with gated full attention in every fourth layer."""
    num_layers, every = fields.size("num_hidden_layers"), fields.size_or(4, "full_attention_interval")
    types = fields.words("layer_types") or tuple(FULL if (i + 1) % every == 0 else LINEAR for i in range(num_layers))
    full = GroupedAttention(
        num_heads=fields.size("num_attention_heads"),
        num_kv_heads=_kv_heads(fields),
        head_dim=fields.size("head_dim"),
        qk_norm=True,
        has_gate=fields.flag("attn_output_gate", default=True),
    )
    linear = GatedDelta(
        key_heads=fields.size("linear_num_key_heads"),
        value_heads=fields.size("linear_num_value_heads"),
        key_dim=fields.size("linear_key_head_dim"),
        value_dim=fields.size("linear_value_head_dim"),
        conv_width=fields.size("linear_conv_kernel_dim"),
    )
    types = _checked_types(fields, types, (FULL, LINEAR))
    wide: Sequence[FeedForward]
    if fields.size_or(0, "num_experts"):
        wide = _qwen_experts(fields)
    else:
        wide = [DenseFeedForward(width=fields.size("intermediate_size"))] * num_layers
    return _counted([(full if kind == FULL else linear, one) for kind, one in zip(types, wide, strict=True)])


def glm4_moe_layers(fields: Fields) -> tuple[Layers, ...]:
    """GLM-4.5: a few dense layers, then experts with a shared one."""
    attention = GroupedAttention(
        num_heads=fields.size("num_attention_heads"),
        num_kv_heads=_kv_heads(fields),
        head_dim=_head_dim(fields, is_required=True),
        qkv_bias=fields.flag("attention_bias", default=False),
        qk_norm=fields.flag("use_qk_norm", default=False),
    )
    return _dense_then_experts(fields, attention, first_dense=fields.size_or(1, "first_k_dense_replace"))


def latent_layers(fields: Fields) -> tuple[Layers, ...]:
    """DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash: latent attention, a few dense layers, then experts.

    DeepSeek-V3.2 and GLM-5 have an indexer in every layer; one that is shared between layers is refused.
    """
    for key in ("index_topk_freq", "index_topk_pattern", "indexer_types", "index_share_for_mtp_iteration"):
        fields.refuse(key, "an indexer that not every layer has is not counted; give a model without it")
    indexed = fields.size_or(0, "index_topk")
    attention = LatentAttention(
        num_heads=fields.size("num_attention_heads"),
        q_rank=fields.size_or(0, "q_lora_rank") or None,
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        index_heads=fields.size("index_n_heads") if indexed else 0,
        index_dim=fields.size("index_head_dim") if indexed else 0,
        index_keys=indexed or None,
    )
    return _dense_then_experts(fields, attention, first_dense=fields.size_or(0, "first_k_dense_replace"))


def gpt_oss_layers(fields: Fields) -> tuple[Layers, ...]:
    """gpt-oss: every second layer sees 128 keys; biases everywhere and a sink a head."""
    num_layers = fields.size("num_hidden_layers")
    types = fields.words("layer_types") or tuple(FULL if i % 2 else SLIDING for i in range(num_layers))
    experts = Experts(
        num_experts=fields.size("num_local_experts", "num_experts"),
        top_k=fields.size("num_experts_per_tok", "experts_per_token"),
        width=fields.size("intermediate_size"),
        has_bias=True,
    )

    def mixer(kind: str) -> Mixer:
        return GroupedAttention(
            num_heads=fields.size("num_attention_heads"),
            num_kv_heads=_kv_heads(fields),
            head_dim=fields.size("head_dim"),
            qkv_bias=True,
            out_bias=True,
            has_sinks=True,
            window=fields.size("sliding_window") if kind == SLIDING else None,
        )

    return _counted([(mixer(kind), experts) for kind in _checked_types(fields, types, (FULL, SLIDING))])


def nemotron_h_layers(fields: Fields) -> tuple[Layers, ...]:
    """Nemotron-H and 3: one block a layer, M for Mamba-2, ``*`` for attention, E for experts, ``-`` for dense."""
    words = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    named = fields.words("layers_block_type")
    pattern = "".join(words.get(word, "?") for word in named) or fields.values.get("hybrid_override_pattern")
    num_layers = len(named) if named else fields.size("num_hidden_layers")
    if not isinstance(pattern, str) or len(pattern) != num_layers or set(pattern) - set("M*E-"):
        raise ModelError(
            explain(
                f"`hybrid_override_pattern` of `{fields.name}` does not name every layer",
                got=pattern,
                allowed="one of M, *, E and - for each of `num_hidden_layers`, or `layers_block_type`",
                hint="give the config.json of the checkpoint as it was published",
            )
        )
    counts = Counter(pattern)
    blocks = [(_nemotron_block(fields, letter), counts[letter]) for letter in "M*E-" if counts[letter]]
    return tuple(Layers(count=n, mixer=mix, feed_forward=wide, num_norms=1) for (mix, wide), n in blocks)


def _nemotron_block(fields: Fields, letter: str) -> tuple[Mixer | None, FeedForward | None]:
    match letter:
        case "M":
            mamba = Mamba2(
                heads=fields.size("mamba_num_heads"),
                head_dim=fields.size("mamba_head_dim"),
                state=fields.size("ssm_state_size"),
                groups=fields.size("n_groups"),
                conv_width=fields.size("conv_kernel"),
            )
            return mamba, None
        case "*":
            attention = GroupedAttention(
                num_heads=fields.size("num_attention_heads"),
                num_kv_heads=_kv_heads(fields),
                head_dim=fields.size("head_dim", "attention_head_dim"),
            )
            return attention, None
        case "E":
            experts = Experts(
                num_experts=fields.size("n_routed_experts"),
                top_k=fields.size("num_experts_per_tok"),
                width=fields.size("moe_intermediate_size"),
                shared_width=fields.size("moe_shared_expert_intermediate_size") * fields.size_or(1, "n_shared_experts"),
                is_gated=False,
                latent_width=fields.size_or(0, "moe_latent_size"),
                has_router_bias=True,
            )
            return None, experts
        case _:
            return None, DenseFeedForward(width=fields.size("intermediate_size"), is_gated=False)


def _dense_then_experts(fields: Fields, attention: Mixer, *, first_dense: int) -> tuple[Layers, ...]:
    num_layers = fields.size("num_hidden_layers")
    if not fields.size_or(0, "n_routed_experts"):
        first_dense = num_layers
    dense = DenseFeedForward(width=fields.size("intermediate_size"))
    if first_dense >= num_layers:
        return (Layers(count=num_layers, mixer=attention, feed_forward=dense),)
    width = fields.size("moe_intermediate_size")
    experts = Experts(
        num_experts=fields.size("n_routed_experts"),
        top_k=fields.size("num_experts_per_tok"),
        width=width,
        shared_width=width * fields.size_or(0, "n_shared_experts"),
        has_router_bias=fields.values.get("topk_method") == "noaux_tc" or _family(fields) != "deepseek_v2",
    )
    rest = Layers(count=num_layers - first_dense, mixer=attention, feed_forward=experts)
    return (Layers(count=first_dense, mixer=attention, feed_forward=dense), rest) if first_dense else (rest,)


def _qwen_experts(fields: Fields) -> list[FeedForward]:
    shared = fields.size_or(0, "shared_expert_intermediate_size")
    experts = Experts(
        num_experts=fields.size("num_experts"),
        top_k=fields.size("num_experts_per_tok"),
        width=fields.size("moe_intermediate_size"),
        shared_width=shared,
        has_shared_gate=shared > 0,
    )
    dense_at, step = frozenset(fields.numbers("mlp_only_layers")), fields.size_or(1, "decoder_sparse_step")
    return [
        experts
        if i not in dense_at and (i + 1) % step == 0
        else DenseFeedForward(width=fields.size("intermediate_size"))
        for i in range(fields.size("num_hidden_layers"))
    ]


def _counted(blocks: Sequence[tuple[Mixer, FeedForward]], num_norms: int = 2) -> tuple[Layers, ...]:
    counts = Counter(blocks)
    return tuple(
        Layers(count=n, mixer=mixer, feed_forward=wide, num_norms=num_norms) for (mixer, wide), n in counts.items()
    )


def _checked_types(fields: Fields, types: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    odd = sorted(set(types) - set(allowed))
    if odd or len(types) != fields.size("num_hidden_layers"):
        raise ModelError(
            explain(
                f"`layer_types` of `{fields.name}` does not name every layer",
                got=f"{len(types)} of {sorted(set(types))}",
                allowed=f"{fields.size('num_hidden_layers')} of {', '.join(allowed)}",
                hint="give the config.json of the checkpoint as it was published",
            )
        )
    return types


def _family(fields: Fields) -> str:
    return str(fields.values.get("model_type", ""))


def _kv_heads(fields: Fields) -> int:
    return fields.size_or(0, "num_key_value_heads") or fields.size("num_attention_heads")


def _head_dim(fields: Fields, *, is_required: bool = False) -> int:
    """Return the head's width; where the class has no default of `hidden_size / num_attention_heads` it must be set."""
    if fields.values.get("head_dim") is not None or is_required:
        return fields.size("head_dim")
    width, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    if width % heads:
        raise ModelError(
            explain(
                f"`head_dim` of `{fields.name}` cannot be told",
                got=f"`hidden_size` {width} and `num_attention_heads` {heads}",
                allowed="a `hidden_size` that the heads divide, or a `head_dim`",
                hint="give the config.json of the checkpoint as it was published",
            )
        )
    return width // heads


def _mistral_window(fields: Fields) -> int | None:
    return fields.size_or(0, "sliding_window") or None
