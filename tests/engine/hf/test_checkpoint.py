"""A checkpoint is a whole folder with the vocabulary it was trained on."""

import json
from pathlib import Path

import pytest
import torch

from steptune.core.errors import ModelError
from steptune.core.model import DenseModel, MoEModel
from steptune.engine.hf import load_model
from steptune.engine.hf.checkpoint import write_checkpoint
from steptune.engine.model import build_model
from steptune.envs.math.tokenizer import MathTokenizer

SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=24)
VOCAB = MathTokenizer().vocab_size


def test_a_checkpoint_loads_as_it_was_and_replaces_an_older_one(tmp_path: Path) -> None:
    for seed in (0, 1):
        state = build_model(SPEC, VOCAB, seed).state_dict()
        write_checkpoint(tmp_path / "step-000001", SPEC, state)
        _, loaded = load_model(tmp_path / "step-000001")
        assert all(torch.equal(loaded[name], state[name]) for name in state)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def test_the_vocabulary_is_in_it_with_its_very_ids(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", SPEC, build_model(SPEC, VOCAB, 0).state_dict())
    vocab = json.loads((tmp_path / "c" / "tokenizer.json").read_text())["model"]["vocab"]
    tokenizer = MathTokenizer()
    assert list(vocab.values()) == list(range(VOCAB))
    assert all(tokenizer.decode([i]) == piece for piece, i in vocab.items() if i > tokenizer.eos_id)
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (1, 2, 0)


def test_a_model_transformers_does_not_have_leaves_no_folder(tmp_path: Path) -> None:
    spec = MoEModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, num_experts=2, d_expert=8, d_shared_expert=8)
    with pytest.raises(ModelError, match="no architecture of this shape"):
        write_checkpoint(tmp_path / "c", spec, build_model(spec, VOCAB, 0).state_dict())
    assert not list(tmp_path.iterdir())
