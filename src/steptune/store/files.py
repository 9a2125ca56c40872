"""Writes files so that a crash, a full disk or a second writer never leaves half a file under its final name.

A file is written and synced under a dotted temporary name first; only then does it get its final name, in one
step. Readers of a run folder ignore dotted names.
"""

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from steptune.core.errors import StoreError, explain

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Errors of the operating system that mean: no room, by disk or by quota."""


@contextmanager
def as_store_error(doing: str, path: Path) -> Generator[None, None, None]:
    """Raise StoreError for any OSError inside, saying what was being done and to which file."""
    try:
        yield
    except OSError as error:
        raise StoreError(_sentence(error, doing, path)) from error


def write_once(path: Path, content: str | bytes) -> None:
    """Create ``path`` with ``content``, whole or not at all.

    Raises:
        StoreError: ``path`` exists already, its folder is gone, or the disk is full.
    """
    with as_store_error("writing", path), _finished_copy(path, content) as copy:
        os.link(copy, path)  # unlike a rename, refuses to overwrite
    sync_folder(path.parent)


def replace(path: Path, content: str | bytes) -> None:
    """Give ``path`` the content ``content`` in one step, whether or not it exists.

    Raises:
        StoreError: its folder is gone, or the disk is full; the old content then still stands.
    """
    with as_store_error("writing", path), _finished_copy(path, content) as copy:
        os.replace(copy, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a power cut."""
    with as_store_error("syncing", folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of ``data`` and sync. One system call, unless the disk runs full in the middle of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


@contextmanager
def _finished_copy(path: Path, content: str | bytes) -> Generator[Path, None, None]:
    """Yield a synced temporary file beside ``path`` that holds ``content``; its name is gone afterwards."""
    copy = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            write_all(descriptor, content.encode() if isinstance(content, str) else content)
        finally:
            os.close(descriptor)
        yield copy
    finally:
        with suppress(FileNotFoundError):
            copy.unlink()


def _sentence(error: OSError, doing: str, path: Path) -> str:
    what = f"{doing} `{path}` failed"
    if error.errno in FULL_DISK:
        hint = "free some space, then go on with `steptune tune --resume`; nothing written before is lost"
        return explain(f"the disk is full: {what}", got=error.strerror, allowed="free space for the file", hint=hint)
    if isinstance(error, FileExistsError):
        hint = "files of a run folder are written once; start a new run"
        return explain(what, got="a file that exists already", allowed="a new name", hint=hint)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = "check the path; a run folder must stay where it is while a session uses it"
        return explain(what, got="no such file or folder", allowed="an existing run folder", hint=hint)
    hint = "check the path and its permissions"
    return explain(what, got=error.strerror or error, allowed="a readable and writable run folder", hint=hint)
