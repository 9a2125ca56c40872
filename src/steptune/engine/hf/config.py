"""`config.json` to a model spec and back: which architectures we have, and which settings would change the numbers.

The surprise is strictness: a setting nobody here knows is refused unless it is off, because a model that loads
and computes something slightly different is worse than one that does not load.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from steptune.core.errors import ModelError, explain, nearest
from steptune.core.model import DenseModel, ExpertFields, HybridFields, HybridModel, HybridMoEModel, ModelSpec, MoEModel
from steptune.engine.hf.fields import Config, first_architecture, shared_fields, shared_settings
from steptune.engine.hf.qwen3_5 import (
    USED_BY_HYBRID_EXPERTS,
    USED_BY_HYBRIDS,
    hybrid,
    hybrid_moe,
    hybrid_settings,
    without_vision,
)

HARMLESS = frozenset(
    {
        *("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "_name_or_path", "use_cache"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "max_position_embeddings"),
        *("max_window_layers", "attention_dropout", "pretraining_tp", "vocab_size", "transformers.js_config"),
        *("is_llama_config", "router_aux_loss_coef", "layer_types", "id2label", "label2id", "problem_type"),
        *("return_dict", "chunk_size_feed_forward", "output_attentions", "output_hidden_states"),
    }
)
"""Keys that do not change a forward pass, or are checked on their own (`layer_types`)."""

USED = frozenset(
    {
        *("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
        *("intermediate_size", "rms_norm_eps", "tie_word_embeddings", "attention_bias", "hidden_act"),
        *("rope_theta", "rope_scaling", "rope_parameters"),
    }
)
"""Keys of every family that are read."""

USED_BY_EXPERTS = frozenset(
    {
        *("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob"),
        *("decoder_sparse_step", "mlp_only_layers"),
    }
)
"""Keys that a mixture of experts reads besides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """One class of transformers: what makes it ours."""

    model_type: str
    used: frozenset[str]
    spec_of: Callable[[Config], ModelSpec]


def spec_of_config(config: Config) -> ModelSpec:
    """Return the spec of a configuration.

    Raises:
        ModelError: an architecture or a setting the engine does not have, or one that is missing or nonsense.
    """
    config = without_vision(config)
    name = first_architecture(config)
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise ModelError(
            explain(
                "the engine does not have this architecture",
                got=f"`{name}`",
                allowed=", ".join(ARCHITECTURES),
                hint=nearest(name, ARCHITECTURES),
            )
        )
    _refuse_unknown(config, architecture.used | HARMLESS)
    try:
        return architecture.spec_of(config)
    except KeyError as error:
        hint = "take the config.json that came with the weights"
        raise ModelError(
            explain(f"`config.json` lacks {error}", got="nothing", allowed="a value", hint=hint)
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(
            explain(
                f"`config.json` has no usable value for `{'.'.join(map(str, first['loc']))}`",
                got=first["input"],
                allowed=first["msg"],
                hint="take the config.json that came with the weights",
            )
        ) from error
    except (TypeError, AttributeError) as error:
        raise ModelError(
            explain(
                "`config.json` has a setting of another kind than transformers writes",
                got=error,
                allowed="lists and tables where it has them",
                hint="take the config.json that came with the weights",
            )
        ) from error


def config_of_spec(spec: ModelSpec, vocab_size: int, dtype: str) -> dict[str, Any]:
    """Return the `config.json` that transformers builds the same model from; ``dtype`` as in ``"float32"``.

    Raises:
        ModelError: no architecture of transformers has this combination.
    """
    name = _architecture_of(spec)
    config: dict[str, Any] = {
        "architectures": [name],
        "model_type": ARCHITECTURES[name].model_type,
        "vocab_size": vocab_size,
        "dtype": dtype,
        **shared_settings(spec),
    }
    if isinstance(spec, HybridFields):
        config |= hybrid_settings(spec)
        config["rope_parameters"]["partial_rotary_factor"] = spec.rotary_frac
    if not isinstance(spec, ExpertFields):
        return config | {"intermediate_size": spec.d_ff}
    config |= {
        "moe_intermediate_size": spec.d_expert,
        "num_experts": spec.num_experts,
        "num_experts_per_tok": spec.top_k,
    }
    if isinstance(spec, MoEModel):
        config |= {
            "intermediate_size": spec.d_expert,
            "norm_topk_prob": spec.norm_topk_prob,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return config


def _architecture_of(spec: ModelSpec) -> str:
    if isinstance(spec, HybridModel):
        return "Qwen3_5ForCausalLM"
    if isinstance(spec, HybridMoEModel) and spec.d_shared_expert is not None and spec.norm_topk_prob:
        return "Qwen3_5MoeForCausalLM"
    if isinstance(spec, DenseModel):
        return "Qwen3ForCausalLM" if spec.qk_norm else "LlamaForCausalLM"
    if isinstance(spec, MoEModel) and spec.qk_norm and spec.d_shared_expert is None:
        return "Qwen3MoeForCausalLM"
    raise ModelError(
        explain(
            "transformers has no architecture of this shape",
            got=spec.model_dump_json(include={"kind", "qk_norm", "d_shared_expert", "norm_topk_prob"}),
            allowed=", ".join(ARCHITECTURES),
            hint="save a mixture of experts with `qk_norm` and without a shared expert; a hybrid's has one, "
            "and `norm_topk_prob`",
        )
    )


def _refuse_unknown(config: Config, known: frozenset[str]) -> None:
    for key, value in config.items():
        if key not in known and value:
            raise ModelError(
                explain(
                    f"`config.json` has a setting the engine does not know: `{key}`",
                    got=value,
                    allowed="settings known not to change the numbers, or switched off",
                    hint="delete the key if it does not change what the model computes",
                )
            )


def _refuse_unsupported(config: Config) -> None:
    must: dict[str, tuple[object, object]] = {
        "hidden_act": (config.get("hidden_act", "silu"), "silu"),
        "layer_types": (set(config.get("layer_types") or ["full_attention"]), {"full_attention"}),
        "decoder_sparse_step": (config.get("decoder_sparse_step", 1), 1),
        "mlp_only_layers": (config.get("mlp_only_layers") or [], []),
    }
    for key, (got, allowed) in must.items():
        if got != allowed:
            raise ModelError(
                explain(
                    f"the engine does not have this `{key}` of `config.json`",
                    got=got,
                    allowed=str(allowed),
                    hint="use a model without it",
                )
            )


def _dense(config: Config, *, qk_norm: bool) -> DenseModel:
    _refuse_unsupported(config)
    fields = {**shared_fields(config), "qk_norm": qk_norm, "d_ff": config["intermediate_size"]}
    return DenseModel.model_validate(fields, strict=True)


def _moe(config: Config) -> MoEModel:
    _refuse_unsupported(config)
    fields = {
        **shared_fields(config),
        "num_experts": config["num_local_experts"] if "num_local_experts" in config else config["num_experts"],
        "top_k": config["num_experts_per_tok"],
        "d_expert": config["moe_intermediate_size"],
        "norm_topk_prob": config.get("norm_topk_prob", False),
    }
    return MoEModel.model_validate(fields, strict=True)


ARCHITECTURES: dict[str, Architecture] = {
    "LlamaForCausalLM": Architecture(
        model_type="llama", used=USED, spec_of=lambda config: _dense(config, qk_norm=False)
    ),
    "Qwen3ForCausalLM": Architecture(
        model_type="qwen3", used=USED, spec_of=lambda config: _dense(config, qk_norm=True)
    ),
    "Qwen3MoeForCausalLM": Architecture(model_type="qwen3_moe", used=USED | USED_BY_EXPERTS, spec_of=_moe),
    "Qwen3_5ForCausalLM": Architecture(model_type="qwen3_5_text", used=USED | USED_BY_HYBRIDS, spec_of=hybrid),
    "Qwen3_5MoeForCausalLM": Architecture(
        model_type="qwen3_5_moe_text", used=USED | USED_BY_HYBRID_EXPERTS, spec_of=hybrid_moe
    ),
}
"""The architectures that load and save."""
