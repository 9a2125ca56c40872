"""Two locks: one session to a run folder, one measurement at a time to a machine.

Both are `flock` on a file that stays where it is: the kernel lets go when the holder dies, however it dies, so no
stale lock is ever left to clean up. The file holds the holder's pid, for people. Programs that the
holder starts do not inherit the lock (close-on-exec).
Surprise: a bare `fork` without exec does share it, and holds it as long as the child lives.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from steptune.core.errors import StoreError, explain
from steptune.store.files import as_store_error

SESSION_LOCK_NAME = "session.lock"
"""File inside a run folder."""

POLL_S = 0.5
"""Seconds between attempts at the machine lock: invisible beside a trial, no load on the machine measured."""

OnWait = Callable[[int | None, float], None]
"""Called between attempts with the holder's pid (None when it is not written yet) and the seconds waited so far."""


@contextmanager
def session_lock(run_folder: Path) -> Generator[None, None, None]:
    """Hold the run folder for this session.

    Raises:
        StoreError: another session holds it (the message names its pid), or the folder is gone.
    """
    path = run_folder / SESSION_LOCK_NAME
    descriptor = _open(path)
    try:
        if not _try_lock(descriptor, path):
            holder = _holder(descriptor)
            what, got = f"`{run_folder}` is in use by another session", f"pid {holder or 'unknown'}"
            hint = "wait for it to end, or end it, then use `--resume`"
            raise StoreError(explain(what, got=got, allowed="one session to a run folder", hint=hint))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def machine_lock(
    on_wait: OnWait, *, folder: Path | None = None, sleep: Callable[[float], None] = time.sleep
) -> Generator[None, None, None]:
    """Hold this machine for measuring, waiting for as long as another process of this user holds it.

    ``folder`` is where the lock file lies; by default the system's folder for temporary files. ``on_wait`` shows
    the wait and may raise to give up.

    Raises:
        StoreError: the lock file cannot be opened.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"steptune-measure-{os.getuid()}.lock"
    descriptor = _open(path)
    try:
        num_waits = 0
        while not _try_lock(descriptor, path):
            on_wait(_holder(descriptor), num_waits * POLL_S)
            sleep(POLL_S)
            num_waits += 1
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    with as_store_error("opening the lock", path):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(descriptor: int, path: Path) -> bool:
    """Take the lock if it is free, and leave this process's pid in the file."""
    with as_store_error("locking", path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return True


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
