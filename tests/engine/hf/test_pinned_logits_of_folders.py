"""Folders of every family against logits that transformers gave once, without transformers: the mapping of weights.

`tests/peers/hf_reference.py` made the files; weights are a formula of tensor names (`hash_fill`), the names and shapes
are those that transformers saves, so a wrong name, order or transposition here cannot agree with itself.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hash_fill import filled
from safetensors import safe_open
from safetensors.torch import save_file

from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.hf import load_model, save_model
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer
from steptune.engine.recur import RunsRecur

FILES = sorted((Path(__file__).parent / "reference").glob("*.json"))
TOLERANCE = 1e-4


def theirs(path: Path, folder: Path) -> dict[str, Any]:
    """Write the folder that transformers had, and return its file."""
    pinned = json.loads(path.read_text())
    tensors = {name: filled(name, shape) for name, shape in pinned["tensors"].items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(pinned["config"]))
    return pinned


def test_every_family_is_pinned() -> None:
    names = {json.loads(path.read_text())["config"]["architectures"][0].removesuffix("ForCausalLM") for path in FILES}
    assert names == {"Llama", "Qwen3", "Qwen3Moe", "Qwen3_5", "Qwen3_5Moe"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_folder_gives_the_logits_of_transformers(path: Path, tmp_path: Path) -> None:
    pinned = theirs(path, tmp_path)
    spec, state = load_model(tmp_path)
    model = Transformer(spec, len(state["embed.weight"]))
    model.load_state_dict(state)
    tokens, run = torch.tensor(pinned["tokens"]), [Run(len(pinned["tokens"]), 1)]
    with torch.no_grad():
        context = Context(attend=attend_runs(run), recur=RunsRecur(run, tokens.device))
        logits = model.logits(model.hidden(tokens, torch.arange(len(tokens)), context))
    got = torch.stack([logits[position, token] for position, token, _ in pinned["logits"]])
    expected = torch.tensor([value for *_, value in pinned["logits"]])
    assert expected.std() > 0.1, "weights that matter"
    torch.testing.assert_close(got, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_folder_is_written_back_with_the_names_and_numbers_it_had(path: Path, tmp_path: Path) -> None:
    pinned = theirs(path, tmp_path)
    save_model(tmp_path / "again", *load_model(tmp_path))
    with safe_open(tmp_path / "again" / "model.safetensors", framework="pt") as file:
        written = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
    stacked = {name for name in pinned["tensors"] if ".experts.gate_up_proj" in name or ".experts.down_proj" in name}
    assert set(pinned["tensors"]) - stacked <= set(written)
    for name in set(pinned["tensors"]) - stacked:
        torch.testing.assert_close(written[name], filled(name, pinned["tensors"][name]), rtol=0, atol=1e-6)
