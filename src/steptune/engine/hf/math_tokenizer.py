"""The arithmetic vocabulary as the files that Hugging Face's `tokenizers` reads: the very same ids, both ways.

Text is cut by one regular expression, longest piece first, as `MathTokenizer.encode` does, and each piece is a word.
The surprise: a character of no piece raises there too, because the unknown token named is none of the vocabulary.
"""

import json
import re
from pathlib import Path
from typing import Any

from steptune.envs.math.tokenizer import MathTokenizer

SPECIAL_NAMES = ("<pad>", "<bos>", "<eos>")
"""Names of ids 0 to 2, whose text is nothing."""


def write_math_tokenizer(folder: Path, max_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``; encoding puts BOS first, as every prompt has it."""
    tokenizer = MathTokenizer()
    pieces = [tokenizer.decode([i]) for i in range(len(SPECIAL_NAMES), tokenizer.vocab_size)]
    pad, bos, eos = SPECIAL_NAMES
    cut = "|".join(re.escape(piece) for piece in sorted(pieces, key=len, reverse=True))
    text: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [_special(i, name) for i, name in enumerate(SPECIAL_NAMES)],
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {bos: {"id": bos, "ids": [tokenizer.bos_id], "tokens": [bos]}},
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {piece: i for i, piece in enumerate((*SPECIAL_NAMES, *pieces))},
            "unk_token": "<unknown>",
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **{"pad_token": pad, "bos_token": bos, "eos_token": eos},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(text, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _special(number: int, name: str) -> dict[str, Any]:
    return {
        **{"id": number, "content": name, "special": True},
        **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
    }
