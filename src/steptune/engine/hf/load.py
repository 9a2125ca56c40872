"""A Hugging Face folder to a spec and a `state_dict` of ours, every tensor accounted for.

Files are memory-mapped and read tensor by tensor: beside the result, only the parts of one tensor are held twice.
"""

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from steptune.core.errors import ModelError, explain
from steptune.core.model import HybridFields, ModelSpec
from steptune.engine.hf.config import spec_of_config
from steptune.engine.hf.layouts import Shape
from steptune.engine.hf.qwen3_5 import LEFT_OUT, TEXT_PREFIX, without_vision
from steptune.engine.hf.recipes import Recipe, recipes

WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
"""File names: all weights in one file, or an index that names the file of every tensor."""

FORMATS = ("F32", "BF16", "F16", "F64")
"""Number formats of weights, as safetensors names them. Whole numbers and 8-bit floats mean nothing without scales."""

NUM_NAMED = 3
"""Tensors an error names before it only counts."""

STACKED_EXPERTS = ".mlp.experts.gate_up_proj"
"""What the name of a tensor ends with that holds all experts of a layer."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A tensor in an open file."""

    file: Any
    """safetensors ships no types."""
    name: str
    """Its name there."""

    def tensor(self) -> Tensor:
        """Read it."""
        return self.file.get_tensor(self.name)

    def shape(self) -> Shape:
        """Return its shape, unread."""
        return tuple(self.file.get_slice(self.name).get_shape())

    def dtype(self) -> str:
        """Return its number format as safetensors names it, unread."""
        return self.file.get_slice(self.name).get_dtype()


Files = dict[str, Stored]
"""Every tensor of a folder by the name it has in a text model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """A folder whose tensors are those of its configuration."""

    spec: ModelSpec
    num_rows: int
    """Rows of the embedding."""
    context_len: int | None
    """`max_position_embeddings`, if it says."""
    files: Files
    recipes: list[Recipe]


def load_model(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Return the spec and the weights for `Transformer(spec, len(state["embed.weight"])).load_state_dict`.

    Weights are cast to ``dtype`` and own their memory.

    Raises:
        ModelError: a file is missing or damaged; an architecture or setting the engine does not have; a tensor
            that is missing, left over, of another shape, of whole numbers, or that holds NaN or infinity.
    """
    with ExitStack() as stack:
        checked = check_model(folder, stack)
        return checked.spec, {r.ours: _assembled(r, checked.files).to(dtype) for r in checked.recipes}


def check_model(folder: Path, stack: ExitStack) -> Checked:
    """Return the folder's model with every tensor accounted for, none of them read; ``stack`` closes its files.

    Raises:
        ModelError: as `load_model`.
    """
    config = without_vision(_read_json(folder / CONFIG))
    spec = spec_of_config(config)
    vocab_size, context_len = config.get("vocab_size"), config.get("max_position_embeddings")
    if not isinstance(vocab_size, int):
        raise _refused("`vocab_size` in `config.json`", vocab_size, "a whole number", "take the model's own file")
    files = _open(folder, stack)
    if isinstance(spec, HybridFields):
        files = _text_part(folder, files)
    found = recipes(spec, vocab_size, stacked_experts=any(name.endswith(STACKED_EXPERTS) for name in files))
    _check(files, dict(part for recipe in found for part in recipe.files()), is_tied=spec.tie_embeddings)
    known_len = context_len if isinstance(context_len, int) and context_len > 0 else None
    return Checked(spec=spec, num_rows=vocab_size, context_len=known_len, files=files, recipes=found)


def _assembled(recipe: Recipe, files: Files) -> Tensor:
    parts = [_finite(files[name]) for name, _ in recipe.files()]
    if recipe.num_experts is None:
        return recipe.layout.join(parts)
    per_expert = len(recipe.parts)
    return torch.stack([recipe.layout.join(parts[i : i + per_expert]) for i in range(0, len(parts), per_expert)])


def _finite(stored: Stored) -> Tensor:
    """Read a tensor and look at every number of it."""
    read = stored.tensor()
    if not bool(read.isfinite().all()):
        hint = "these weights have diverged or are damaged: download them again"
        raise _refused(f"`{stored.name}` is not finite", "NaN or infinity in it", "finite numbers", hint)
    return read


def _text_part(folder: Path, files: Files) -> Files:
    """Return the tensors of the text model, named as where it stands alone."""
    left_out = sum(name.startswith(LEFT_OUT) for name in files)
    if left_out:
        log.warning("%s: %d tensors of vision and of guessing further tokens are left out", folder, left_out)
    kept = {name: stored for name, stored in files.items() if not name.startswith(LEFT_OUT)}
    return {name.replace(TEXT_PREFIX, "model.", 1): stored for name, stored in kept.items()}


def _open(folder: Path, stack: ExitStack) -> Files:
    """Return the open file of every tensor in the folder."""
    files: Files = {}
    for path in weight_files(folder):
        handle = _open_one(path, stack)
        files |= {key: Stored(file=handle, name=key) for key in handle.keys()}  # noqa: SIM118  it is no mapping
    return files


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights, in order of name; one file goes before an index, as in transformers.

    Raises:
        ModelError: the index is damaged.
    """
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return [folder / WEIGHTS]
    weight_map = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        raise _refused(f"`{folder / INDEX}`", "no weight_map", "a table of tensor names", "download it again")
    return [folder / name for name in sorted({str(name) for name in weight_map.values()})]


def _open_one(path: Path, stack: ExitStack) -> Any:  # noqa: ANN401  safetensors ships no types
    if not path.is_file():
        hint = f"the folder needs `{WEIGHTS}`, or `{INDEX}` and the files it names"
        raise _refused(f"`{path}` cannot be read", "no such file", "safetensors", hint)
    try:
        return stack.enter_context(safe_open(path, framework="pt"))
    except (SafetensorError, OSError) as error:
        raise _refused(f"`{path}` is damaged", error, "a whole safetensors file", "download it again") from error


def _check(files: Files, expected: dict[str, Shape], *, is_tied: bool) -> None:
    """Raise unless the folder holds exactly the expected tensors (and copies that are known to be redundant)."""
    missing = [name for name in expected if name not in files]
    if missing:
        hint = "the download is incomplete, or config.json belongs to another model"
        raise _refused("tensors are missing", _listed(missing), "every tensor of the architecture", hint)
    extra = [name for name in files if name not in expected and not _is_redundant(name, files, is_tied=is_tied)]
    if extra:
        hint = "config.json belongs to another model, or the model has a part that the engine does not"
        raise _refused("tensors are left over", _listed(extra), "only tensors the architecture uses", hint)
    for name, shape in expected.items():
        got = files[name].shape()
        if got != shape:
            hint = "config.json belongs to another model"
            raise _refused(f"`{name}` has another shape than config.json says", got, str(shape), hint)
        if (number := files[name].dtype()) not in FORMATS:
            hint = "take the weights as they were trained, not a quantized copy"
            raise _refused(f"`{name}` has numbers that are no weights by themselves", number, ", ".join(FORMATS), hint)


def _is_redundant(name: str, files: Files, *, is_tied: bool) -> bool:
    """Return whether a tensor repeats another: a tied head written out, or rotary frequencies of old checkpoints."""
    if name == "lm_head.weight" and is_tied:
        embed = "model.embed_tokens.weight"
        return torch.equal(files[name].tensor(), files[embed].tensor())
    return name.endswith("rotary_emb.inv_freq")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "name the folder that holds `config.json`"
        raise _refused(f"`{path}` cannot be read", error.strerror, "a Hugging Face model folder", hint) from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"`{path}` is not JSON", error, "a JSON table", "download it again") from error
    if not isinstance(read, dict):
        raise _refused(f"`{path}` is not a table", type(read).__name__, "a JSON table", "download it again")
    return read


def _listed(names: list[str]) -> str:
    rest = len(names) - NUM_NAMED
    return ", ".join(f"`{name}`" for name in sorted(names)[:NUM_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _refused(what: str, got: object, allowed: str, hint: str) -> ModelError:
    return ModelError(explain(what, got=got, allowed=allowed, hint=hint))
