"""A CPU quota by control group, version 2 (`cpu.max`) or 1 (`cpu.cfs_quota_us`): the kernel holds it.

A quota belongs to a group, so the process moves into one of its own, made beside it, and back on release. A killed
process leaves its empty group behind; the next quota removes it. The surprise: a process started by a limited one
is born in its group, and would be held by both quotas; so a new group is always made outside of ours.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

Version = Literal[1, 2]

PERIOD_US = 20_000
"""Microseconds over which a quota is held. The kernel's own 100 ms would be a tenth of a step of the example."""

PREFIX = "steptune-"
"""Our groups: the prefix and the id of the process."""

PROCS = "cgroup.procs"
"""File of a group that lists its processes; writing an id moves that process in (cgroups(7))."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a group of our own may be made, and where this process is now."""

    base: Path
    home: Path


@final
class CgroupQuota:
    """Holds the process ``pid``, with its threads, to ``cores`` until released."""

    def __init__(self, version: Version, place: Place, *, pid: int, cores: float) -> None:
        """Make the group and move in.

        Raises:
            OSError: the rights are missing, or the kernel refuses; nothing is left behind.
        """
        self.pid, self.home = pid, place.home
        sweep(place.base)
        self.folder = make_group(version, place.base, f"{PREFIX}{pid}", cores)
        try:
            _write(self.folder / PROCS, str(pid))
        except OSError:
            _remove(self.folder)
            raise

    def release(self) -> None:
        """Move the process back and remove its group."""
        with suppress(OSError):
            _write(self.home / PROCS, str(self.pid))
        _remove(self.folder)


def make_group(version: Version, base: Path, name: str, cores: float) -> Path:
    """Make a group under a quota and return its folder.

    Raises:
        OSError: the rights or the controller are missing; nothing is left behind.
    """
    folder = base / name
    folder.mkdir(exist_ok=True)
    try:
        for file, text in limit_files(version, cores).items():
            _write(folder / file, text)
    except OSError:
        _remove(folder)
        raise
    return folder


def try_group(version: Version, place: Place, pid: int) -> None:
    """Make a group and remove it again; no process is moved.

    Raises:
        OSError: the rights or the controller are missing.
    """
    _remove(make_group(version, place.base, f"{PREFIX}{pid}-try", 1.0))


def limit_files(version: Version, cores: float) -> dict[str, str]:
    """Return the files of a group that hold a quota, in the order they are written.

    >>> limit_files(2, 0.25), limit_files(1, 1.5)
    ({'cpu.max': '5000 20000'}, {'cpu.cfs_period_us': '20000', 'cpu.cfs_quota_us': '30000'})
    """
    quota_us = round(cores * PERIOD_US)
    if version == 2:
        return {"cpu.max": f"{quota_us} {PERIOD_US}"}
    return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}


def find_place(version: Version, *, mounts: str, memberships: str) -> Place | None:
    """Return where a group could be made, or None where this version has no CPU controller for us.

    ``mounts`` is the text of /proc/mounts, ``memberships`` that of /proc/self/cgroup.
    """
    mount = next((Path(f[1]) for f in map(str.split, mounts.splitlines()) if _is_cpu_mount(version, f)), None)
    path = next((p for p in map(str.strip, memberships.splitlines()) if _is_ours(version, p)), None)
    if mount is None or path is None:
        return None
    home = mount / path.split(":", 2)[2].lstrip("/")
    outside = home.parent if home.name.startswith(PREFIX) else home
    if version == 1:
        return Place(base=outside, home=outside) if outside.is_dir() else None
    base = next((p for p in (outside, outside.parent) if _delegates_cpu(p)), None)
    return None if base is None else Place(base=base, home=outside)


def sweep(base: Path) -> None:
    """Remove groups whose process is gone."""
    for folder in base.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).split("-")[0]
        if not Path(f"/proc/{pid}").exists():
            _remove(folder)


def _is_cpu_mount(version: Version, fields: list[str]) -> bool:
    if version == 2:
        return fields[2] == "cgroup2"
    return fields[2] == "cgroup" and "cpu" in fields[3].split(",")


def _is_ours(version: Version, line: str) -> bool:
    controllers = line.split(":", 2)[1]
    return controllers == "" if version == 2 else "cpu" in controllers.split(",")


def _delegates_cpu(folder: Path) -> bool:
    """Return whether groups below ``folder`` have the CPU controller (version 2)."""
    try:
        return "cpu" in (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY), "w") as file:
        file.write(text)


def _remove(folder: Path) -> None:
    with suppress(OSError):  # still in use, or already gone: the next sweep sees to it
        folder.rmdir()
