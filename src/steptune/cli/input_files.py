"""The files a command line names: paths, folders, lists with commas, and `-` for standard input.

Surprise: readers pass over a file more than once, so standard input and pipes (`<(kubectl logs ...)`) are first
written to files of this process's own; the answer names them `stdin` and `pipe` all the same.
"""

import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from steptune.cli.binary_files import without_binary
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import ReadError, explain

STDIN_NAME, PIPE_NAME = "stdin", "pipe"
"""How standard input and pipes are named in an answer."""

PREFIX = "steptune-"
"""First characters of the folder that holds copies of them."""

_WEIGHTS = (".bin", ".ckpt", ".distcp", ".gguf", ".metadata", ".onnx", ".pkl", ".pt", ".pth", ".safetensors")
_ARCHIVES = (".arrow", ".bz2", ".gz", ".npy", ".npz", ".parquet", ".tar", ".tgz", ".zip")
_OTHERS = (".gif", ".jpeg", ".jpg", ".mp4", ".pdf", ".png", ".pyc", ".so", ".svg")

NOT_READ = frozenset((*_WEIGHTS, *_ARCHIVES, *_OTHERS))
"""Endings that are passed over in a folder: weights, archives, data and pictures, which may be many gigabytes."""

NOT_READ_NAMES = frozenset({"tokenizer.json", "vocab.json", "merges.txt", "special_tokens_map.json"})
"""Files of a model that look like configuration."""


@contextmanager
def input_files(names: Sequence[str]) -> Generator[list[Path]]:
    """Yield the files behind ``names`` in order; a folder stands for the files in it, folders inside included.

    Raises:
        ReadError: a path does not exist, a folder is empty, or nothing in them is text.
        WrongCallError: standard input is named twice.
    """
    check_stdin(names)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        yield without_binary([path for name in names for path in _files(name, Path(folder))])


def check_stdin(names: Sequence[str]) -> None:
    """Raise WrongCallError when standard input is named more than once: it can be read only once."""
    times = names.count("-")
    if times > 1:
        sentence = explain("standard input can be read once", got=f"{times} times `-`", allowed="one", hint="use files")
        raise WrongCallError(sentence)


def split_list(text: str) -> list[str]:
    """Return the parts of a list with commas; a path that exists with its comma stays whole."""
    return [text] if Path(text).exists() else [part for part in text.split(",") if part]


def _files(name: str, folder: Path) -> list[Path]:
    if name == "-":
        return [_copied(sys.stdin.buffer, folder / STDIN_NAME)]
    path = Path(name)
    if not path.exists():
        raise ReadError(
            explain("input cannot be read", got=f"`{name}`", allowed="a file or folder", hint="check the path")
        )
    if not path.is_dir():
        return [path if path.is_file() else _copied_pipe(path, folder)]
    inside = sorted(p for p in path.rglob("*") if p.is_file() and _is_wanted(p.relative_to(path)))
    if not inside:
        raise ReadError(
            explain("folder holds no file", got=f"`{name}`", allowed="logs, configs", hint="check the path")
        )
    return inside


def _copied_pipe(path: Path, folder: Path) -> Path:
    number = sum(1 for _ in folder.glob(f"{PIPE_NAME}*")) + 1
    try:
        with path.open("rb") as pipe:
            return _copied(pipe, folder / (PIPE_NAME if number == 1 else f"{PIPE_NAME}{number}"))
    except OSError as error:
        sentence = explain("input cannot be read", got=f"`{path}`", allowed="a file or pipe", hint=f"{error.strerror}")
        raise ReadError(sentence) from error


def _copied(source: IO[bytes], path: Path) -> Path:
    with path.open("wb") as file:
        shutil.copyfileobj(source, file)
    return path


def _is_wanted(path: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.parts)
    return not is_hidden and path.suffix.lower() not in NOT_READ and path.name not in NOT_READ_NAMES
