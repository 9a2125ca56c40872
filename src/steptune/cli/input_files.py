"""The files a command line names: paths, folders, lists with commas, and `-` for standard input.

Surprise: readers pass over a file more than once, so standard input is first written to a file of this process's
own; the answer names it `stdin` all the same.
"""

import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steptune.core.errors import ReadError, explain

STDIN_NAME = "stdin"
"""How standard input is named in an answer."""

PREFIX = "steptune-"
"""First characters of the folder that holds a copy of it."""


@contextmanager
def input_files(names: Sequence[str]) -> Generator[list[Path]]:
    """Yield the files behind ``names`` in order; a folder stands for the files in it, folders inside included.

    Raises:
        ReadError: a path does not exist, a folder is empty, or standard input is named twice.
    """
    if names.count("-") > 1:
        raise ReadError(
            explain(
                "standard input can be read once", got=f"{names.count('-')} times `-`", allowed="one", hint="use files"
            )
        )
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        yield [path for name in names for path in _files(name, Path(folder))]


def split_list(text: str) -> list[str]:
    """Return the parts of a list with commas; a path that exists with its comma stays whole."""
    return [text] if Path(text).exists() else [part for part in text.split(",") if part]


def _files(name: str, folder: Path) -> list[Path]:
    if name == "-":
        path = folder / STDIN_NAME
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [path]
    path = Path(name)
    if not path.exists():
        raise ReadError(
            explain("input cannot be read", got=f"`{name}`", allowed="a file or folder", hint="check the path")
        )
    if not path.is_dir():
        return [path]
    inside = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
    if not inside:
        raise ReadError(
            explain("folder holds no file", got=f"`{name}`", allowed="logs, configs", hint="check the path")
        )
    return inside


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
