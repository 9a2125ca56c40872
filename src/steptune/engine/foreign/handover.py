"""Weights into a folder that vLLM reads: a Hugging Face model, and beside it the version and a hash of every tensor.

The hashes are those of the tensors in the file's number format. Every version has a folder of its own, written whole
before it is named to the server, and the one before it is removed afterwards.

Surprise: tied embeddings are written twice, as a model that does not tie them. vLLM 0.32 packs the output head's weight
for its CPU kernels when the server starts; a reload finds no head in a tied model's file ("ParallelLMHead: Failed to
load weights"), keeps the old one without an error, and answers with half-new weights.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from steptune.core.model import ModelSpec
from steptune.core.records import Record
from steptune.engine.hf.save import save_model
from steptune.engine.tensor_hash import tensor_hash

RECORD = "handover.json"
"""Name of the record in a version's folder."""


class Handover(Record):
    """What was written.

    Example: ``Handover(version=3, dtype="bf16", num_bytes=269_030_016, hashes={"embed.weight": 7311})``.
    """

    version: int
    """Optimizer updates behind the weights."""
    dtype: str
    num_bytes: int
    hashes: dict[str, int]
    """By our tensor's name (`tensor_hash`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A version's folder and its record."""

    folder: Path
    record: Handover


def write_version(
    folder: Path, spec: ModelSpec, state: Mapping[str, Tensor], version: int, dtype: torch.dtype, ids: Mapping[str, int]
) -> Written:
    """Write ``state`` in ``dtype`` to ``folder/<version>``; ``ids`` go into `config.json` (see `save_model`).

    Raises:
        ModelError: no architecture of transformers has this shape.
    """
    cast = {name: tensor.detach().to("cpu", dtype) for name, tensor in state.items()}
    target = folder / str(version)
    shutil.rmtree(target, ignore_errors=True)
    save_model(target, *_untied(spec, cast), token_ids=ids)
    record = Handover(
        version=version,
        dtype=str(dtype).removeprefix("torch."),
        num_bytes=sum(tensor.nbytes for tensor in cast.values()),
        hashes={name: tensor_hash(tensor) for name, tensor in cast.items()},
    )
    text = json.dumps(record.model_dump(), indent=1)
    (target / RECORD).write_text(text + "\n", encoding="utf-8")
    return Written(folder=target, record=record)


def _untied(spec: ModelSpec, state: Mapping[str, Tensor]) -> tuple[ModelSpec, Mapping[str, Tensor]]:
    """Return the same model with an output head of its own."""
    if not spec.tie_embeddings:
        return spec, state
    return spec.model_copy(update={"tie_embeddings": False}), {**state, "head.weight": state["embed.weight"]}
