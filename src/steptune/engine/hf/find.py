"""From what a job says of a model folder to what the engine must know of it, before anything is trained.

Every reason for which the folder cannot be used comes up here: a package that is not installed, a tensor too many,
a tokenizer of another model. Only configuration and headers are read, and the bytes of the files once for their hash.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path

from torch import Tensor

from steptune.core.errors import ModelError, explain
from steptune.core.model import ModelSpec
from steptune.core.pretrained import HfModel, Pretrained
from steptune.engine.hf.load import check_model, load_model, weight_files
from steptune.engine.hf.smollm2 import smollm2_folder
from steptune.envs.chat_template import ChatTemplate
from steptune.envs.hf_tokenizer import fit_tokenizer, settings_of, tokenizer_sha256

CHUNK_BYTES = 1 << 22
"""Bytes hashed at once."""


def find_model(wanted: HfModel, cache: Path) -> ModelSpec:
    """Return the shape of the model that a job names, with `pretrained` told.

    A package's weights are converted into ``cache`` once; a folder is read where it is.

    Raises:
        ModelError: the package is not installed, or the folder, its tokenizer or its chat template cannot be used.
    """
    folder = smollm2_folder(cache) if wanted.folder is None else Path(wanted.folder)
    with ExitStack() as stack:
        checked = check_model(folder, stack)
    fitted = fit_tokenizer(folder, checked.num_rows)
    if wanted.chat:
        ChatTemplate.read(folder, settings_of(folder)).asking("1+1?")
    pretrained = Pretrained(
        folder=str(folder),
        chat=wanted.chat,
        weights_sha256=weights_sha256(folder),
        tokenizer_sha256=tokenizer_sha256(folder),
        vocab_size=fitted.vocab_size,
        context_len=checked.context_len or fitted.max_length,
        eos_id=fitted.eos_id,
        other_eos_ids=fitted.other_eos_ids,
        pad_id=fitted.pad_id,
    )
    return checked.spec.model_copy(update={"padded_vocab": checked.num_rows, "pretrained": pretrained})


def load_found(spec: ModelSpec) -> dict[str, Tensor]:
    """Return the weights of a model that `find_model` found, as float32.

    Raises:
        ModelError: folder or weights have gone or changed since.
    """
    assert spec.pretrained is not None, "a spec that says where its weights are"
    folder, expected = Path(spec.pretrained.folder), spec.pretrained.weights_sha256
    found, state = load_model(folder)
    sha256 = weights_sha256(folder)
    if sha256 != expected or found != spec.model_copy(update={"padded_vocab": None, "pretrained": None}):
        raise ModelError(
            explain(
                f"the model in `{folder}` is not the one that the job was read with",
                got=f"SHA-256 {sha256[:12]}" if sha256 != expected else "another shape in `config.json`",
                allowed=f"{expected[:12]}" if sha256 != expected else "the shape in the job",
                hint="start the job anew from its file",
            )
        )
    return state


def weights_sha256(folder: Path) -> str:
    """Return the hash over the names and bytes of the files that hold the weights."""
    digest = hashlib.sha256()
    for path in weight_files(folder):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
