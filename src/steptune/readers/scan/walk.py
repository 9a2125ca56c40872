"""Paths a user hands in become files: a folder stands for the logs, metrics and configurations in it."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from steptune.core.errors import ReadError, explain

_SUFFIXES = (
    *(".log", ".txt", ".out", ".err", ".jsonl", ".ndjson", ".json", ".csv", ".yaml", ".yml", ".toml", ".sh", ".py"),
    *(".db", ".sqlite", ".sqlite3"),
)
"""Endings that are read inside a folder; a file handed in by name is always read."""

_EVENTS = "events.out.tfevents"
_SKIPPED = frozenset(("tokenizer.json", "vocab.json", "special_tokens_map.json", "generation_config.json"))
"""Files of a model, in every checkpoint folder."""

MAX_FILES = 200
"""Files of one folder that are read, in the order of their paths."""

MAX_DEPTH = 4
"""Folders inside each other that are followed."""


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return every file once, folders walked.

    Raises:
        ReadError: a path does not exist.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise ReadError(
                explain("log cannot be read", got=f"{path} (no such file)", allowed="a file or folder", hint="check it")
            )
        found |= dict.fromkeys(islice(_inside(path, 0), MAX_FILES) if path.is_dir() else [path])
    return list(found)


def _inside(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _inside(path, depth + 1) if depth < MAX_DEPTH else ()
        elif _is_known(path):
            yield path


def _is_known(path: Path) -> bool:
    return path.name.startswith(_EVENTS) or (path.suffix.lower() in _SUFFIXES and path.name not in _SKIPPED)
