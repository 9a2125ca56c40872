"""The tokenizer of a Hugging Face folder, read by the package `tokenizers`; its chat template by Jinja.

The surprise: which token ends a demonstration is the tokenizer's word, not `config.json`'s. Chat models end a turn with
another token than the one their base model ended a document with, and `config.json` often names the latter. What a
model says ends at either: at all that `generation_config.json` names, as `generate` of transformers does.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from steptune.core.errors import ModelError, explain
from steptune.core.pretrained import Pretrained
from steptune.envs.chat_template import ChatTemplate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, SETTINGS, CONFIG = "tokenizer.json", "tokenizer_config.json", "config.json"
"""The vocabulary and its rules; the names of special tokens and the chat template; the model's own settings."""

GENERATION = "generation_config.json"
"""How the model is sampled from. Where it is missing or names no end, transformers takes those of `config.json`."""

TOKENIZER_FILES = (
    *(TOKENIZER, SETTINGS, "chat_template.jinja", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "tokenizer.model"),
)
"""What may belong to a tokenizer, in the order in which it is hashed."""

NO_LENGTH = 10**9
"""`model_max_length` above this says that there is none: transformers writes 1e30."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Text of an id without a token: an embedding may have more rows than the tokenizer has tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """What a tokenizer says of itself: ``Fitted(vocab_size=49152, eos_id=2, other_eos_ids=(), pad_id=2, ...)``."""

    vocab_size: int
    eos_id: int
    other_eos_ids: tuple[int, ...]
    pad_id: int
    max_length: int | None


@final
class HfTokenizer:
    """Implements `envs.vocabulary.Tokenizer`."""

    def __init__(self, pretrained: Pretrained) -> None:
        """Read the folder's tokenizer.

        Raises:
            ModelError: its files have gone or changed since the job was read, or a package is missing.
        """
        folder = Path(pretrained.folder)
        self._tokenizer = _open(folder)
        found = tokenizer_sha256(folder)
        if found != pretrained.tokenizer_sha256:
            raise _refused(
                f"the tokenizer in `{folder}` is not the one that the job was read with",
                f"SHA-256 {found[:12]}",
                f"{pretrained.tokenizer_sha256[:12]}",
                "start the job anew from its file",
            )
        self.vocab_size, self.eos_id, self.pad_id = pretrained.vocab_size, pretrained.eos_id, pretrained.pad_id
        self.other_eos_ids, self._ends = pretrained.other_eos_ids, {pretrained.eos_id, *pretrained.other_eos_ids}
        self._known = frozenset(self._tokenizer.get_vocab(with_added_tokens=True).values())
        self._chat = ChatTemplate.read(folder, settings_of(folder)) if pretrained.chat else None

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of ``text`` with what the tokenizer puts before, or of the chat in which the user says it."""
        if self._chat is not None:
            return self._encode(self._chat.asking(text), with_specials=False)
        return self._encode(text, with_specials=True)

    def encode_completion(self, text: str) -> list[int]:
        """Return the ids of ``text`` and the end of sequence."""
        return [*self._encode(text, with_specials=False), self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; special tokens and ends are nothing, ids of no token U+FFFD."""
        return "".join(self._decoded([token for token in ids if token not in self._ends]))

    def _decoded(self, ids: Sequence[int]) -> Iterator[str]:
        for is_known, run in groupby(ids, self._known.__contains__):
            yield self._tokenizer.decode(list(run), skip_special_tokens=True) if is_known else UNKNOWN

    def _encode(self, text: str, *, with_specials: bool) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=with_specials).ids


def fit_tokenizer(folder: Path, num_rows: int) -> Fitted:
    """Return what the folder's tokenizer needs the engine to know; ``num_rows`` are those of the embedding.

    Raises:
        ModelError: it has ids beyond the embedding, no token that ends a sequence, or cannot be read.
    """
    tokenizer, settings, config = _open(folder), settings_of(folder), _table(folder / CONFIG)
    vocab_size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if vocab_size > num_rows:
        raise _refused(
            f"the tokenizer in `{folder}` does not fit the model",
            f"ids up to {vocab_size - 1}",
            f"ids up to {num_rows - 1}, the embedding's rows",
            "take the tokenizer that came with the weights",
        )
    eos_id = _special(tokenizer, settings, config, "eos")
    if eos_id is None:
        raise _refused(
            f"the tokenizer in `{folder}` names no token that ends a sequence",
            "neither `eos_token` nor `eos_token_id`",
            "a token of its vocabulary",
            f"add `eos_token` to `{SETTINGS}`",
        )
    pad_id = _special(tokenizer, settings, config, "pad")
    max_length = settings.get("model_max_length")
    return Fitted(
        vocab_size=vocab_size,
        eos_id=eos_id,
        other_eos_ids=_other_ends(folder, tokenizer, config, eos_id),
        pad_id=eos_id if pad_id is None else pad_id,
        max_length=int(max_length) if isinstance(max_length, int | float) and 0 < max_length < NO_LENGTH else None,
    )


def tokenizer_sha256(folder: Path) -> str:
    """Return the hash over the tokenizer's files and their names."""
    digest = hashlib.sha256()
    for name in TOKENIZER_FILES:
        path = folder / name
        if path.is_file():
            digest.update(f"{name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the tokenizer's settings; none where the folder has no such file."""
    path = folder / SETTINGS
    return _table(path) if path.is_file() else {}


def _special(tokenizer: "Tokenizer", settings: dict[str, Any], config: dict[str, Any], name: str) -> int | None:
    """Return the id of a special token: named by the tokenizer's settings, or else numbered in `config.json`."""
    named = settings.get(f"{name}_token")
    text = named.get("content") if isinstance(named, dict) else named
    if isinstance(text, str):
        found = tokenizer.token_to_id(text)
        if found is None:
            raise _refused(f"`{name}_token` in `{SETTINGS}`", repr(text), "a token of the vocabulary", "correct it")
        return found
    numbered = config.get(f"{name}_token_id")
    number = numbered[0] if isinstance(numbered, list) and numbered else numbered
    if number is not None and (not isinstance(number, int) or tokenizer.id_to_token(number) is None):
        raise _refused(f"`{name}_token_id` in `{CONFIG}`", number, "the id of a token", "correct it")
    return number


def _other_ends(folder: Path, tokenizer: "Tokenizer", config: dict[str, Any], eos_id: int) -> tuple[int, ...]:
    """Return what else ends a completion, in the order of the file that says it."""
    path = folder / GENERATION
    generation = _table(path) if path.is_file() else {}
    where = GENERATION if generation.get("eos_token_id") is not None else CONFIG
    named = (generation if where == GENERATION else config).get("eos_token_id")
    ids: list[Any] = named if isinstance(named, list) else [] if named is None else [named]
    for number in ids:
        if not isinstance(number, int) or tokenizer.id_to_token(number) is None:
            raise _refused(f"`eos_token_id` in `{where}`", number, "the id of a token, or a list of them", "correct it")
    return tuple(dict.fromkeys(number for number in ids if number != eos_id))


def _open(folder: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _refused(
            f"`{folder / TOKENIZER}` needs the package `tokenizers`",
            "a Python without it",
            "tokenizers 0.20 or newer",
            "`pip install tokenizers`, or the extra `hf` of this project",
        ) from error
    path = folder / TOKENIZER
    if not path.is_file():
        hint = "save it with the fast tokenizer of transformers; a `tokenizer.model` alone is not read"
        raise _refused(f"`{path}` cannot be read", "no such file", "a `tokenizer.json`", hint)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises the bare class
        raise _refused(f"`{path}` is no tokenizer", error, "a `tokenizer.json`", "download it again") from error


def _table(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(f"`{path}` cannot be read", error, "a JSON table", "download it again") from error
    if not isinstance(read, dict):
        raise _refused(f"`{path}` is not a table", type(read).__name__, "a JSON table", "download it again")
    return read


def _refused(what: str, got: object, allowed: str, hint: str) -> ModelError:
    return ModelError(explain(what, got=got, allowed=allowed, hint=hint))
