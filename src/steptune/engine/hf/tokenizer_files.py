"""Writes a byte-level BPE tokenizer of a GGUF file as the files that Hugging Face's `tokenizers` reads.

The rule that cuts text before any merge is not in the file, only its name; SmolLM2's cuts every digit on its own.
"""

import json
from pathlib import Path
from typing import Any

from steptune.core.errors import ModelError, explain
from steptune.engine.hf.gguf import GgufFile

NORMAL_TOKEN = 1
"""`tokenizer.ggml.token_type` of what text is made of; others are control tokens."""

PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "smollm": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ]
}
"""Cutting rules by `tokenizer.ggml.pre`."""


def write_tokenizer(folder: Path, source: GgufFile) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``.

    Raises:
        ModelError: a kind of tokenizer that is not written here.
    """
    meta: dict[str, Any] = source.metadata
    model, rule = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre")
    if model != "gpt2" or rule not in PRE_TOKENIZERS:
        hint = "take the tokenizer.json that came with the model"
        raise ModelError(
            explain("this tokenizer is not known here", got=f"{model}, {rule}", allowed="gpt2, smollm", hint=hint)
        )
    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    special = [i for i, kind in enumerate(meta["tokenizer.ggml.token_type"]) if kind != NORMAL_TOKEN]
    byte_level = PRE_TOKENIZERS[rule][-1]
    text = {
        "version": "1.0",
        "added_tokens": [_special(i, tokens[i]) for i in special],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[rule]},
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]],
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": meta["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": meta["tokenizer.chat_template"],
        **{
            f"{ours}_token": tokens[meta[f"tokenizer.ggml.{theirs}_token_id"]]
            for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(text, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _special(number: int, token: str) -> dict[str, Any]:
    return {
        "id": number,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
