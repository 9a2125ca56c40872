"""Puts the calling process under a quota in cores, by the best way this machine allows, and says which.

cgroup v2, cgroup v1, duty cycle, in this order: a group is held by the kernel to the microsecond, a duty cycle by a
process that must be scheduled itself. Which one is used is decided by trying, since rights show only then.
"""

import math
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from steptune.core.errors import JobError, explain
from steptune.engine.quota.cgroup import CgroupQuota, Place, Version, find_place, try_group
from steptune.engine.quota.duty import DutyQuota

Way = Literal["cgroup v2", "cgroup v1", "duty cycle"]

GROUPS: dict[Way, Version] = {"cgroup v2": 2, "cgroup v1": 1}
"""The ways that need a control group, best first."""


class Quota(Protocol):
    """A quota in force."""

    def release(self) -> None:
        """Let the process use every core again."""
        ...


def limit_self(cores: float, way: Way | None = None) -> Quota:
    """Hold this process, with its threads, to ``cores``. Processes it starts later are not to inherit it: see `cgroup`.

    ``way`` None takes `quota_way`'s.

    Raises:
        JobError: ``cores`` is not a positive number.
        OSError: the way asked for does not work here.
    """
    if not (math.isfinite(cores) and cores > 0):
        raise JobError(explain("a CPU quota must be positive", got=cores, allowed="cores above 0", hint="use 0.5"))
    if way == "duty cycle":
        return DutyQuota(cores=cores, num_threads=math.ceil(cores))
    if way is not None:
        return _in_group(GROUPS[way], cores)
    for version in GROUPS.values():
        try:
            return _in_group(version, cores)
        except OSError:
            continue  # no rights, or no controller: the next way
    return DutyQuota(cores=cores, num_threads=math.ceil(cores))


@contextmanager
def limited(cores: float | None) -> Generator[None]:
    """Hold this process to ``cores`` inside the block; None changes nothing."""
    if cores is None:
        yield
        return
    quota = limit_self(cores)
    try:
        yield
    finally:
        quota.release()


def quota_way() -> Way:
    """Return the way that works here, by making a group and removing it; no process is moved."""
    for way, version in GROUPS.items():
        try:
            try_group(version, _place(version), os.getpid())
        except OSError:
            continue
        return way
    return "duty cycle"


def _in_group(version: Version, cores: float) -> Quota:
    return CgroupQuota(version, _place(version), pid=os.getpid(), cores=cores)


def _place(version: Version) -> Place:
    mounts, memberships = (Path(path).read_text(encoding="utf-8") for path in ("/proc/mounts", "/proc/self/cgroup"))
    place = find_place(version, mounts=mounts, memberships=memberships)
    if place is None:
        raise FileNotFoundError(f"no CPU controller of cgroup version {version}")
    return place
