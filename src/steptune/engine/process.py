"""Processes that never outlive whoever started them."""

import ctypes
import os
import signal
import sys
from pathlib import Path

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


def peak_memory_bytes(pid: int | None = None) -> int | None:
    """Return the peak resident memory of a process (None: this one), or None where the kernel does not say.

    Read from VmHWM: `ru_maxrss` survives exec and would report the parent's peak.
    """
    try:
        text = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
