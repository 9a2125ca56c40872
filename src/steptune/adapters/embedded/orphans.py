"""Finds and stops processes that a killed session left behind, by the mark in their environment.

Engine processes ask the kernel to die with their parent, so there should be none; this is the second net.
"""

import os
import signal
from pathlib import Path

from steptune.adapters.embedded.session import RUN_MARK


def run_mark(path: Path) -> str:
    """Return the mark of the run folder that ``path`` is or lies in: the folder with a `journal.jsonl`."""
    path = path.resolve()
    for folder in (path, *path.parents):
        if (folder / "journal.jsonl").exists():
            return str(folder)
    return str(path)


def stop_marked(mark: str) -> list[int]:
    """Kill every process whose environment carries ``mark``; return their ids. Linux only, else none."""
    stopped: list[int] = []
    wanted = f"{RUN_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
                stopped.append(pid)
        except (OSError, ProcessLookupError):
            continue
    return stopped
