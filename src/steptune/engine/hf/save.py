"""A model of ours to a Hugging Face folder that transformers and vLLM load.

Weights are written before `config.json`, each under a temporary name first: a folder with a config is whole.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from steptune.core.model import ModelSpec
from steptune.engine.hf.config import config_of_spec
from steptune.engine.hf.load import CONFIG, WEIGHTS
from steptune.engine.hf.recipes import Recipe, recipes


def save_model(
    folder: Path, spec: ModelSpec, state: Mapping[str, Tensor], *, token_ids: Mapping[str, Any] | None = None
) -> None:
    """Write ``state`` in the number format it has.

    ``token_ids`` are further settings of `config.json`, where known: ``eos_token_id`` and the like.

    Raises:
        ModelError: no architecture of transformers has this shape.
    """
    vocab_size, dtype = len(state["embed.weight"]), state["embed.weight"].dtype
    config = config_of_spec(spec, vocab_size, str(dtype).removeprefix("torch.")) | dict(token_ids or {})
    tensors: dict[str, Tensor] = {}
    for recipe in recipes(spec, vocab_size):
        tensors |= _parts(recipe, state[recipe.ours].detach().cpu())
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{WEIGHTS}.{os.getpid()}.tmp"
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, folder / WEIGHTS)
    temporary = folder / f"{CONFIG}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, folder / CONFIG)


def _parts(recipe: Recipe, whole: Tensor) -> dict[str, Tensor]:
    """Return the tensors of the file that ``whole`` is made of."""
    shapes = [shape for _, shape in recipe.parts]
    experts = [whole] if recipe.num_experts is None else list(whole.unbind(0))
    pieces = [piece for expert in experts for piece in recipe.layout.split(expert, shapes)]
    names = [name for name, _ in recipe.files()]
    return {name: piece.clone(memory_format=torch.contiguous_format) for name, piece in zip(names, pieces, strict=True)}
