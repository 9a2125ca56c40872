"""`config.json` to a model spec and back: which architectures we have, and which settings would change the numbers.

The surprise is strictness: a setting nobody here knows is refused unless it is off, because a model that loads
and computes something slightly different is worse than one that does not load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from steptune.core.errors import ModelError, explain, nearest
from steptune.core.model import DenseModel, Llama3Rope, ModelSpec, MoEModel
from steptune.engine.hf.recipes import LoadableModel

Config = Mapping[str, Any]
"""A parsed `config.json`."""

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
    spec_of: Callable[[Config], LoadableModel]


def spec_of_config(config: Config) -> LoadableModel:
    """Return the spec of a configuration.

    Raises:
        ModelError: an architecture or a setting the engine does not have, or one that is missing or nonsense.
    """
    names = config.get("architectures") or ["none"]
    architecture = ARCHITECTURES.get(str(names[0]))
    if architecture is None:
        raise ModelError(
            explain(
                "the engine does not have this architecture",
                got=f"`{names[0]}`",
                allowed=", ".join(ARCHITECTURES),
                hint=nearest(str(names[0]), ARCHITECTURES),
            )
        )
    _refuse_unknown(config, architecture.used | HARMLESS)
    _refuse_unsupported(config)
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


def config_of_spec(spec: ModelSpec, vocab_size: int, dtype: str) -> dict[str, Any]:
    """Return the `config.json` that transformers builds the same model from; ``dtype`` as in ``"float32"``.

    Raises:
        ModelError: no architecture of transformers has this combination.
    """
    name = _architecture_of(spec)
    rope: dict[str, Any] = {"rope_theta": spec.rope_theta, "rope_type": "default"}
    if spec.rope_scaling is not None:
        scaling = spec.rope_scaling
        rope |= {
            "rope_type": scaling.kind,
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_max_positions,
        }
    # written twice: `rope_parameters` for transformers 5, the other two for 4 and for other readers
    old_rope = {key: value for key, value in rope.items() if key != "rope_theta"}
    config: dict[str, Any] = {
        "architectures": [name],
        "model_type": ARCHITECTURES[name].model_type,
        "vocab_size": vocab_size,
        "num_hidden_layers": spec.num_layers,
        "hidden_size": spec.d_model,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_width,
        "hidden_act": "silu",
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tie_embeddings,
        "attention_bias": spec.attention_bias,
        "rope_theta": spec.rope_theta,
        "rope_scaling": None if spec.rope_scaling is None else old_rope,
        "rope_parameters": rope,
        "dtype": dtype,
    }
    if isinstance(spec, DenseModel):
        return config | {"intermediate_size": spec.d_ff}
    assert isinstance(spec, MoEModel), "`_architecture_of` refuses every other family"
    return config | {
        "intermediate_size": spec.d_expert,
        "moe_intermediate_size": spec.d_expert,
        "num_experts": spec.num_experts,
        "num_experts_per_tok": spec.top_k,
        "norm_topk_prob": spec.norm_topk_prob,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _architecture_of(spec: ModelSpec) -> str:
    if isinstance(spec, DenseModel):
        return "Qwen3ForCausalLM" if spec.qk_norm else "LlamaForCausalLM"
    if isinstance(spec, MoEModel) and spec.qk_norm and spec.d_shared_expert is None:
        return "Qwen3MoeForCausalLM"
    raise ModelError(
        explain(
            "transformers has no architecture of this shape",
            got=spec.model_dump_json(include={"kind", "qk_norm", "d_shared_expert"}, fallback=str),
            allowed=", ".join(ARCHITECTURES),
            hint="save a mixture of experts with `qk_norm` and without a shared expert",
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


def _shared_fields(config: Config) -> dict[str, Any]:
    return {
        "num_layers": config["num_hidden_layers"],
        "d_model": config["hidden_size"],
        "num_heads": config["num_attention_heads"],
        "num_kv_heads": config.get("num_key_value_heads") or config["num_attention_heads"],
        "head_dim": config.get("head_dim"),
        "attention_bias": config.get("attention_bias", False),
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "tie_embeddings": config.get("tie_word_embeddings", False),
        **_rope_fields(config),
    }


def _rope_fields(config: Config) -> dict[str, Any]:
    """Return rotary settings, which transformers 5 writes in one table and earlier versions in two places."""
    rope: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    theta = rope.get("rope_theta", config.get("rope_theta", 10_000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return {"rope_theta": theta}
    if kind != "llama3":
        raise ModelError(
            explain(
                "the engine does not have this rotary scaling",
                got=f"`{kind}`",
                allowed="default, llama3",
                hint="YaRN and linear scaling only matter beyond the trained context; delete them for shorter rows",
            )
        )
    scaling = Llama3Rope(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_positions=rope["original_max_position_embeddings"],
    )
    return {"rope_theta": theta, "rope_scaling": scaling}


def _dense(config: Config, *, qk_norm: bool) -> DenseModel:
    fields = {**_shared_fields(config), "qk_norm": qk_norm, "d_ff": config["intermediate_size"]}
    return DenseModel.model_validate(fields, strict=True)


def _moe(config: Config) -> MoEModel:
    fields = {
        **_shared_fields(config),
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
}
"""The architectures that load and save."""
