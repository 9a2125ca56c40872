"""What happens to the files of a log: they grow, are rotated, begin again, vanish; and how long they were silent.

Surprise: silence is measured by a clock that cannot jump wherever we watched ourselves. Only the age at the first look
comes from the file's date, and a date in the future is no age.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

TAIL_BYTES = 65536
"""Bytes at the end of the newest file in which the last lines are looked for."""

TAIL_LINES = 40
"""Last lines that may name the phase a job hangs in."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """One file: ``FileState(inode=812, size=40960, changed_s=1764527812.2)``."""

    inode: int
    size: int
    changed_s: float
    """Seconds since the epoch, by the file system's clock."""


def states_of(names: Sequence[str]) -> dict[Path, FileState]:
    """Return the state of every file behind ``names``; one that is not there is left out."""
    found: dict[Path, FileState] = {}
    for name in names:
        path = Path(name)
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            try:
                told = file.stat()
            except OSError:
                continue
            found[file] = FileState(inode=told.st_ino, size=told.st_size, changed_s=told.st_mtime)
    return found


def happened(before: Mapping[Path, FileState], after: Mapping[Path, FileState]) -> list[str]:
    """Return what happened to files between two looks, beside growing."""
    told: list[str] = []
    for path, was in before.items():
        now = after.get(path)
        if now is None:
            told.append(f"`{path}` is gone; it is waited for")
        elif now.inode != was.inode:
            told.append(f"`{path}` was rotated: another file is there now")
        elif now.size < was.size:
            told.append(f"`{path}` begins again: it has {now.size} bytes, it had {was.size}")
    return told


def age_s(states: Mapping[Path, FileState], now_s: float) -> float:
    """Return the seconds since the newest file changed; NaN without files or with a date in the future."""
    newest = max((state.changed_s for state in states.values()), default=math.nan)
    age = now_s - newest
    return age if age >= 0 else math.nan


def last_lines(states: Mapping[Path, FileState]) -> list[str]:
    """Return the last lines of the file that changed last."""
    if not states:
        return []
    newest = max(states, key=lambda path: states[path].changed_s)
    try:
        with newest.open("rb") as file:
            file.seek(max(0, states[newest].size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-TAIL_LINES:]
