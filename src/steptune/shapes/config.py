"""From a Hugging Face `config.json` to a shape, without torch or transformers.

Vision-language models keep their language model under `text_config`; the tower beside it is named and not counted.
An architecture that is not known is refused: a guess that is 30 % off would look like a number.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from steptune.core.errors import ModelError, explain, nearest
from steptune.shapes.fields import Fields
from steptune.shapes.layers import (
    dense_layers,
    gemma_layers,
    glm4_moe_layers,
    gpt_oss_layers,
    latent_layers,
    minimax_layers,
    mixtral_layers,
    nemotron_h_layers,
    qwen_hybrid_layers,
    qwen_moe_layers,
)
from steptune.shapes.shape import Layers, ModelShape

READERS: dict[str, Callable[[Fields], tuple[Layers, ...]]] = {
    "llama": dense_layers,
    "mistral": dense_layers,
    "qwen2": dense_layers,
    "qwen2_vl": dense_layers,
    "qwen2_vl_text": dense_layers,
    "qwen2_5_vl": dense_layers,
    "qwen2_5_vl_text": dense_layers,
    "qwen3": dense_layers,
    "qwen3_vl_text": dense_layers,
    "seed_oss": dense_layers,
    "gemma": gemma_layers,
    "gemma2": gemma_layers,
    "gemma3_text": gemma_layers,
    "mixtral": mixtral_layers,
    "qwen3_moe": qwen_moe_layers,
    "qwen3_vl_moe_text": qwen_moe_layers,
    "qwen3_next": qwen_hybrid_layers,
    "qwen3_5_text": qwen_hybrid_layers,
    "qwen3_5_moe_text": qwen_hybrid_layers,
    "glm4_moe": glm4_moe_layers,
    "glm4_moe_lite": latent_layers,
    "deepseek_v2": latent_layers,
    "deepseek_v3": latent_layers,
    "deepseek_v32": latent_layers,
    "glm_moe_dsa": latent_layers,
    "kimi_k2": latent_layers,
    "minimax_m2": minimax_layers,
    "gpt_oss": gpt_oss_layers,
    "nemotron_h": nemotron_h_layers,
}
"""`model_type` to the reader of its layers."""

TIES_BY_DEFAULT = ("gemma", "gemma2", "gemma3_text")
"""Classes whose `tie_word_embeddings` is true where the file does not say."""

LARGEST_FILE_BYTES = 4_000_000
"""A config.json is a few kB; what is larger is something else."""


def shape_of(name: str, config: Mapping[str, object]) -> ModelShape:
    """Return the shape a configuration describes.

    Raises:
        ModelError: its architecture is not known, or a field is missing or odd; the message names it.
    """
    text = config.get("text_config")
    inner = cast("Mapping[str, object]", text) if isinstance(text, Mapping) else config
    family = inner.get("model_type", config.get("model_type"))
    reader = READERS.get(family) if isinstance(family, str) else None
    if reader is None:
        raise _unknown(name, family)
    merged: dict[str, object] = {**inner, "model_type": family}
    fields = Fields(name=name, values=merged)
    outer = config.get("tie_word_embeddings")
    ties = Fields(name=name, values={"tie_word_embeddings": inner.get("tie_word_embeddings", outer)})
    return ModelShape(
        name=name,
        d_model=fields.size("hidden_size"),
        vocab_size=fields.size("vocab_size"),
        is_tied=ties.flag("tie_word_embeddings", default=family in TIES_BY_DEFAULT),
        layers=reader(fields),
        omits=_omits(config, fields),
    )


def read_shape(path: Path) -> ModelShape:
    """Return the shape of a `config.json`, or of the one in a folder.

    Raises:
        ModelError: it cannot be read, is no JSON object, or describes what is not known.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            raise _unreadable(file, f"{file.stat().st_size} bytes")
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(file, str(error)) from error
    if not isinstance(found, dict):
        raise _unreadable(file, type(found).__name__)
    return shape_of(str(path), cast("dict[str, object]", found))


def _omits(config: Mapping[str, object], fields: Fields) -> tuple[str, ...]:
    parts = ["the vision tower (`vision_config`)"] if config.get("vision_config") else []
    if any(fields.size_or(0, key) for key in ("num_nextn_predict_layers", "mtp_num_hidden_layers")):
        parts.append("layers that predict further tokens (MTP)")
    return tuple(parts)


def _unknown(name: str, family: object) -> ModelError:
    known = nearest(family, READERS) if isinstance(family, str) else f"use one of {', '.join(sorted(READERS))}"
    return ModelError(
        explain(
            f"`model_type` of `{name}` is not an architecture whose layers are known here",
            got=f"`{family}`" if family else "no such field",
            allowed=", ".join(sorted(READERS)),
            hint=f"{known} If it is a copy of one of them, give its config.json with that `model_type`",
        )
    )


def _unreadable(file: Path, why: str) -> ModelError:
    return ModelError(
        explain(
            f"`{file}` is no model configuration",
            got=why,
            allowed="a config.json, or the folder that holds it",
            hint="take the file of that name from the checkpoint",
        )
    )
