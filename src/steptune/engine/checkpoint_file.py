"""Checkpoint files of a run: written whole or not at all, and refused when a bit of them is not what was written.

``state/step-000040.state`` is one line with a hash, then the state. The two newest are kept: if the last one is
damaged, the one before it is used. Knows nothing of what is inside, and needs no torch.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from steptune.core.errors import StoreError, explain

NUM_KEPT = 2
"""Checkpoints left in the folder."""

NAME = re.compile(r"step-(\d{6,})\.state")
"""Names that are ours; nothing else in the folder is read or removed."""

MAGIC = b"steptune-state-1"
"""First word of every file: format and version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The newest checkpoint that is whole, and what was wrong with newer ones."""

    path: Path | None
    payload: bytes
    problems: tuple[str, ...]


def write_checkpoint(folder: Path, step: int, payload: bytes) -> Path:
    """Write the state after ``step`` steps and remove those older than the newest two.

    Raises:
        StoreError: the disk is full or the folder cannot be written; older checkpoints still stand.
    """
    path = folder / f"step-{step:06d}.state"
    temporary = folder / f".{path.name}.tmp"
    header = b" ".join((MAGIC, hashlib.sha256(payload).hexdigest().encode(), str(len(payload)).encode())) + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(header + payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(
            explain(
                f"checkpoint {path.name} could not be written",
                got=error.strerror or error,
                allowed=f"room for {len(payload):,} bytes",
                hint="free some room and go on with `steptune train --resume RUN`",
            )
        ) from error
    for old in list_checkpoints(folder)[NUM_KEPT:]:
        old.unlink()
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first; none where there is no folder."""
    if not folder.is_dir():
        return []
    ours = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
    return sorted(ours, key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """Return how many steps a checkpoint's run had done, read off its name."""
    return int(path.stem.removeprefix("step-"))


def read_checkpoint(path: Path) -> bytes:
    """Return the state.

    Raises:
        StoreError: the file is not whole.
    """
    header, _, payload = path.read_bytes().partition(b"\n")
    words = header.split(b" ")
    if len(words) != len((MAGIC, b"hash", b"length")) or words[0] != MAGIC:
        raise _damaged(path, "no header of ours")
    if len(payload) != int(words[2]):
        raise _damaged(path, f"{len(payload):,} bytes of {int(words[2]):,}")
    if hashlib.sha256(payload).hexdigest().encode() != words[1]:
        raise _damaged(path, "another hash than was written")
    return payload


def newest_whole(folder: Path) -> Found:
    """Return the newest checkpoint that is whole."""
    problems: list[str] = []
    for path in list_checkpoints(folder):
        try:
            return Found(path=path, payload=read_checkpoint(path), problems=tuple(problems))
        except (StoreError, OSError) as error:
            problems.append(str(error))
    return Found(path=None, payload=b"", problems=tuple(problems))


def _damaged(path: Path, got: str) -> StoreError:
    return StoreError(
        explain(
            f"checkpoint {path.name} is damaged",
            got=got,
            allowed="the file exactly as it was written",
            hint="the one before it is used; nothing is deleted",
        )
    )
