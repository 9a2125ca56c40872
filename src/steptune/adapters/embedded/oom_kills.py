"""How many processes the kernel has killed for want of memory: what tells such a death from an accident.

Surprise: the count is the whole machine's, other people's processes included; only a run that died of SIGKILL *while*
it rose is taken to be one of them.
"""

from pathlib import Path

VMSTAT = Path("/proc/vmstat")
"""Counters of the kernel; `oom_kill` since Linux 4.13 (https://docs.kernel.org/filesystems/proc.html)."""


def num_oom_kills(path: Path = VMSTAT) -> int | None:
    """Return the kernel's count since boot; None where it tells none."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def has_risen(before: int | None, now: int | None) -> bool:
    """Return whether the kernel is known to have killed for memory in between.

    >>> has_risen(3, 4), has_risen(3, 3), has_risen(None, 4)
    (True, False, False)
    """
    return before is not None and now is not None and now > before
