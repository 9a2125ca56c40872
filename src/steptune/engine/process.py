"""Processes that never outlive whoever started them."""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
"""`prctl` option: signal to receive when the parent dies (linux/prctl.h)."""


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent dies, and leave at once if it already has.

    Linux only; elsewhere the closed command pipe ends the process instead.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def private_stdout() -> IO[str]:
    """Keep the real stdout for answers and point fd 1 at stderr: what a library prints is no answer."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def peak_memory_bytes(pid: int | None = None) -> int | None:
    """Return the peak resident memory of a process (None: this one), or None where the kernel does not say.

    Read from VmHWM: `ru_maxrss` survives exec and would report the parent's peak.
    """
    return _status_bytes(pid).get("VmHWM")


def own_peak_memory_bytes() -> int | None:
    """Return this process's peak without the shared memory that it has touched by now: whoever made that counts it.

    A process that helps another one reports this, so that the sum over processes holds every byte once.
    """
    known = _status_bytes(None)
    peak = known.get("VmHWM")
    return None if peak is None else peak - known.get("RssShmem", 0)


def _status_bytes(pid: int | None) -> dict[str, int]:
    """Return the sizes in a process's status; empty where there is none."""
    try:
        text = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="ascii")
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {name.removesuffix(":"): int(number) * 1024 for name, number, _ in lines}
