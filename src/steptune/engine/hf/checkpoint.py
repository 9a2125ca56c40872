"""A trained policy as a folder that transformers loads: weights, configuration and vocabulary.

A folder appears whole or not at all. These are weights to use; what a killed run goes on from is kept elsewhere.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from steptune.core.model import ModelSpec
from steptune.core.pretrained import Pretrained
from steptune.engine.hf.math_tokenizer import write_math_tokenizer
from steptune.engine.hf.save import save_model
from steptune.envs.hf_tokenizer import TOKENIZER_FILES
from steptune.envs.math.tokenizer import MathTokenizer

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


def _settings(pretrained: Pretrained | None) -> dict[str, int]:
    """Return what `config.json` says of tokens and lengths."""
    if pretrained is None:
        ids = MathTokenizer
        tokens = {"bos_token_id": ids.bos_id, "eos_token_id": ids.eos_id, "pad_token_id": ids.pad_id}
        return {**tokens, "max_position_embeddings": MAX_LENGTH}
    lengths = {} if pretrained.context_len is None else {"max_position_embeddings": pretrained.context_len}
    return {"eos_token_id": pretrained.eos_id, "pad_token_id": pretrained.pad_id, **lengths}


def _copy_tokenizer(source: Path, folder: Path) -> None:
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
