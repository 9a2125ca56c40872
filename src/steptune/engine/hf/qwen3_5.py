"""Qwen3.5 in `config.json`: hybrids of the gated delta rule and full attention, dense or with experts.

The surprise: published folders are of models that also see. Their text part stands in `text_config`, its tensors
under `model.language_model.`; `without_vision` takes it out, and what looks at pictures is left in the file.
"""

from typing import Any

from steptune.core.errors import ModelError, explain
from steptune.core.model import HybridFields, HybridModel, HybridMoEModel
from steptune.engine.hf.fields import Config, first_architecture, rope_table, shared_fields

USED_BY_HYBRIDS = frozenset(
    {
        *("linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads"),
        *("linear_num_value_heads", "full_attention_interval", "partial_rotary_factor", "attn_output_gate"),
        *("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
    }
)
"""Keys of a hybrid beside those of every family. The state is always float32, `mamba_ssm_dtype` or not; the
layers of `mtp_...` guess further tokens ahead and are left out, as transformers does."""

USED_BY_HYBRID_EXPERTS = USED_BY_HYBRIDS | {
    *("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"),
    *("output_router_logits",),
}
"""Keys that a hybrid's mixture of experts reads besides."""

WITH_VISION = {
    "Qwen3_5ForConditionalGeneration": "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForConditionalGeneration": "Qwen3_5MoeForCausalLM",
}
"""Models that also see, and the text model inside each."""

TEXT_PREFIX = "model.language_model."
"""What names of the text part's tensors begin with there, in the place of `model.`."""

LEFT_OUT = ("model.visual.", "mtp.")
"""What names of tensors begin with that are no part of the text model."""


def without_vision(config: Config) -> Config:
    """Return the text model's configuration: the part of a model that also sees, any other as it is."""
    name, text = first_architecture(config), config.get("text_config")
    if name not in WITH_VISION or not isinstance(text, dict):
        return config
    tied = {"tie_word_embeddings": config.get("tie_word_embeddings", False)}
    return tied | text | {"architectures": [WITH_VISION[name]]}


def hybrid(config: Config) -> HybridModel:
    """Return the spec of a `Qwen3_5ForCausalLM`."""
    spec = HybridModel.model_validate({**_fields(config), "d_ff": config["intermediate_size"]}, strict=True)
    _check_rotation(spec)
    return spec


def hybrid_moe(config: Config) -> HybridMoEModel:
    """Return the spec of a `Qwen3_5MoeForCausalLM`; its router always scales the chosen probabilities to sum to 1."""
    fields = {
        **_fields(config),
        "num_experts": config["num_experts"],
        "top_k": config["num_experts_per_tok"],
        "d_expert": config["moe_intermediate_size"],
        "d_shared_expert": config["shared_expert_intermediate_size"],
        "norm_topk_prob": True,
    }
    spec = HybridMoEModel.model_validate(fields, strict=True)
    _check_rotation(spec)
    return spec


def hybrid_settings(spec: HybridFields) -> dict[str, Any]:
    """Return the settings of a hybrid beside those of every family; ``rope_parameters`` are to be merged.

    Raises:
        ModelError: transformers would rotate another part of each head, or has no such layer.
    """
    _check_rotation(spec)
    if not spec.qk_norm or not spec.attention_gate or spec.rope_scaling is not None:
        raise _refused(
            "transformers has no hybrid of this shape",
            spec.model_dump_json(include={"qk_norm", "attention_gate", "rope_scaling"}),
            "norms over query and key heads, a gate on the attention's output, plain rotation",
            "leave `qk_norm`, `attention_gate` and `rope_scaling` of a hybrid as they are by default",
        )
    kinds = ("linear_attention", "full_attention")
    settings: dict[str, Any] = {
        "layer_types": [kinds[spec.has_full_attention(layer)] for layer in range(spec.num_layers)],
        "full_attention_interval": spec.full_attention_every,
        "linear_conv_kernel_dim": spec.conv_width,
        "linear_num_key_heads": spec.linear_key_heads,
        "linear_num_value_heads": spec.linear_value_heads,
        "linear_key_head_dim": spec.linear_key_dim,
        "linear_value_head_dim": spec.linear_value_dim,
        "partial_rotary_factor": spec.rotary_frac,
    }
    if isinstance(spec, HybridMoEModel):
        settings["shared_expert_intermediate_size"] = spec.d_shared_expert
    return settings


def _fields(config: Config) -> dict[str, Any]:
    must: dict[str, tuple[object, object]] = {
        "attn_output_gate": (config.get("attn_output_gate", True), True),
        "hidden_act": (config.get("hidden_act", "silu"), "silu"),
    }
    for key, (got, allowed) in must.items():
        if got != allowed:
            hint = "use a model without it"
            raise _refused(f"the engine does not have this `{key}` of `config.json`", got, str(allowed), hint)
    frac = rope_table(config).get("partial_rotary_factor", config.get("partial_rotary_factor", 0.25))
    return {
        **shared_fields(config),
        "rotary_frac": frac,
        "full_attention_every": _full_attention_every(config),
        "conv_width": config["linear_conv_kernel_dim"],
        "linear_key_heads": config["linear_num_key_heads"],
        "linear_value_heads": config["linear_num_value_heads"],
        "linear_key_dim": config["linear_key_head_dim"],
        "linear_value_dim": config["linear_value_head_dim"],
    }


def _full_attention_every(config: Config) -> int:
    """Return which layers attend, counted: every k-th."""
    kinds = config.get("layer_types")
    if not kinds:
        return config.get("full_attention_interval", 4)
    every = kinds.index("full_attention") + 1 if "full_attention" in kinds else len(kinds) + 1
    expected = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(len(kinds))]
    if kinds != expected or len(kinds) != config["num_hidden_layers"]:
        raise _refused(
            "the engine does not have this `layer_types` of `config.json`",
            kinds,
            "`full_attention` in every k-th layer, `linear_attention` in all others, one entry per layer",
            "use a model whose layers repeat",
        )
    return every


def _check_rotation(spec: HybridFields) -> None:
    width = spec.head_width * spec.rotary_frac
    if width % 2:
        raise _refused(
            "the rotated part of a head is not a whole number of pairs",
            f"{spec.rotary_frac} of {spec.head_width}: {width} numbers",
            "an even number",
            "choose `head_dim` so that `head_dim` x `rotary_frac` is even",
        )


def _refused(what: str, got: object, allowed: str, hint: str) -> ModelError:
    return ModelError(explain(what, got=got, allowed=allowed, hint=hint))
