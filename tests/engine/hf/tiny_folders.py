"""Model folders of a few kilobytes with a tokenizer of single characters, made without transformers or a network."""

import json
from pathlib import Path
from typing import Any

from steptune.core.model import DenseModel, ModelSpec
from steptune.engine.hf import save_model
from steptune.engine.model import build_model

SPECIALS = ("<pad>", "<bos>", "<eos>")
LETTERS = sorted({*"0123456789+-*=?#.,: \n", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz"})
CONTEXT = 96
SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer_table() -> dict[str, Any]:
    """Every character a token of its own, after the three special ones; encoding puts `<bos>` first."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    bos = {"id": "<bos>", "type_id": 0}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": name, "special": True, **flags} for i, name in enumerate(SPECIALS)],
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": bos}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [1], "tokens": ["<bos>"]}},
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {text: i for i, text in enumerate((*SPECIALS, *LETTERS))},
            "unk_token": "<pad>",
        },
    }


def write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table))


def change_json(path: Path, **changes: object) -> None:
    """Set keys of a JSON file; None deletes them."""
    table = json.loads(path.read_text()) | changes
    write_json(path, {key: value for key, value in table.items() if value is not None})


def tiny_folder(folder: Path, *, spec: ModelSpec = SPEC, num_rows: int = 96, context: int = CONTEXT) -> Path:
    """Write a whole model folder: random weights, more embedding rows than tokens, a chat template."""
    state = build_model(spec, num_rows, seed=3).state_dict()
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "max_position_embeddings": context}
    save_model(folder, spec, state, token_ids=ids)
    write_json(folder / "tokenizer.json", tokenizer_table())
    names = {"bos_token": "<bos>", "eos_token": {"content": "<eos>"}, "pad_token": "<pad>"}
    write_json(folder / "tokenizer_config.json", {**names, "model_max_length": 1e30, "chat_template": TEMPLATE})
    return folder
