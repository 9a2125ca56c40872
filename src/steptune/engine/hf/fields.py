"""The settings of `config.json` that every family has, read and written."""

from collections.abc import Mapping
from typing import Any

from steptune.core.errors import ModelError, explain
from steptune.core.model import DecoderModel, Llama3Rope

Config = Mapping[str, Any]
"""A parsed `config.json`."""


def first_architecture(config: Config) -> str:
    """Return the class that the weights are of; "none" where the configuration does not say."""
    named = config.get("architectures") or ["none"]
    return str(named[0] if isinstance(named, list) else named)


def shared_fields(config: Config) -> dict[str, Any]:
    """Return the fields of `core.model.DecoderModel`.

    Raises:
        KeyError: a setting without a default is not there.
        ModelError: a rotary scaling the engine does not have.
    """
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


def shared_settings(spec: DecoderModel) -> dict[str, Any]:
    """Return the settings that every family writes.

    Rotary ones are written twice: `rope_parameters` for transformers 5, the other two for 4 and for other readers.
    """
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
    old_rope = {key: value for key, value in rope.items() if key != "rope_theta"}
    return {
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
    }


def rope_table(config: Config) -> dict[str, Any]:
    """Return the rotary settings, which transformers 5 writes in one table and earlier versions in two places."""
    return {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}


def _rope_fields(config: Config) -> dict[str, Any]:
    rope = rope_table(config)
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
