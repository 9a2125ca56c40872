"""When a process under a duty cycle must stop and when it may go on: a bucket of CPU seconds. Pure.

::

    credit   grows by `cores` per wall second, never above one period's worth (time not used is not saved up)
             shrinks by every CPU second used
    stop     when it is used up;  resume when half a period's worth is back

A process that waits for its peer uses nothing and is never stopped.
"""

from dataclasses import dataclass
from typing import final

PERIOD_S = 0.02
"""Seconds of one cycle: as the control groups' (`cgroup.PERIOD_US`)."""

RESUME_FRAC = 0.5
"""Part of a period's worth that must be back before a stopped process goes on: fewer signals, same share."""

SHORTEST_WAIT_S = 0.001
"""Least seconds between two looks: the controller itself must not eat the cores (1 % of one at 1 ms)."""


@final
@dataclass(kw_only=True, slots=True)
class Bucket:
    """One process's account; `look` decides, whoever calls it acts."""

    cores: float
    num_threads: int
    """Cores the process can use at once: how fast the credit may vanish."""
    wall_s: float
    """Clock at the last look."""
    cpu_s: float
    """The process's CPU clock at the last look."""
    credit_s: float = 0.0
    is_stopped: bool = False

    def look(self, wall_s: float, cpu_s: float) -> float:
        """Book the time since the last look, set `is_stopped`, return seconds until the next look."""
        full_s = self.cores * PERIOD_S
        grown = self.credit_s + self.cores * (wall_s - self.wall_s) - (cpu_s - self.cpu_s)
        self.credit_s = min(grown, full_s)
        self.wall_s, self.cpu_s = wall_s, cpu_s
        self.is_stopped = self.credit_s < (RESUME_FRAC * full_s if self.is_stopped else 0.0)
        if self.is_stopped:
            wait_s = (RESUME_FRAC * full_s - self.credit_s) / self.cores
        else:
            wait_s = self.credit_s / self.num_threads
        return max(wait_s, SHORTEST_WAIT_S)
