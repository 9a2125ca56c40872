"""A trained policy as a folder that transformers loads: weights, configuration and vocabulary.

A folder appears whole or not at all. These are weights to use; what a killed run goes on from is kept elsewhere.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from steptune.core.model import ModelSpec
from steptune.core.pretrained import Pretrained
from steptune.engine.hf.load import CONFIG
from steptune.engine.hf.math_tokenizer import write_math_tokenizer
from steptune.engine.hf.save import save_model
from steptune.envs.hf_tokenizer import TOKENIZER_FILES
from steptune.envs.math.tokenizer import MathTokenizer

TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Settings of `config.json` that are kept as the folder had them; the end of sequence may be a list."""

GENERATION = "generation_config.json"
"""How others sample from the model; kept as it was."""

MAX_LENGTH = 2048
"""Tokens a row may have, as told to transformers; the longest problem and answer are far shorter."""


def write_checkpoint(folder: Path, spec: ModelSpec, state: Mapping[str, Tensor]) -> None:
    """Write ``folder``; one that is there is replaced.

    Raises:
        ModelError: no architecture of transformers has this shape.
    """
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    try:
        save_model(partial, spec, state, token_ids=_settings(spec.pretrained))
        if spec.pretrained is None:
            write_math_tokenizer(partial, MAX_LENGTH)
        else:
            _copy_tokenizer(Path(spec.pretrained.folder), partial)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _settings(pretrained: Pretrained | None) -> dict[str, Any]:
    """Return what `config.json` says of tokens and lengths."""
    if pretrained is None:
        ids = MathTokenizer
        tokens = {"bos_token_id": ids.bos_id, "eos_token_id": ids.eos_id, "pad_token_id": ids.pad_id}
        return {**tokens, "max_position_embeddings": MAX_LENGTH}
    lengths = {} if pretrained.context_len is None else {"max_position_embeddings": pretrained.context_len}
    source: dict[str, Any] = json.loads((Path(pretrained.folder) / CONFIG).read_text(encoding="utf-8"))
    told = {name: source[name] for name in TOKEN_IDS if source.get(name) is not None}
    return {"eos_token_id": pretrained.eos_id, "pad_token_id": pretrained.pad_id, **lengths, **told}


def _copy_tokenizer(source: Path, folder: Path) -> None:
    for name in (*TOKENIZER_FILES, GENERATION):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
