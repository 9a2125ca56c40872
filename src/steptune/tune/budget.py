"""What is left to spend: trials, device-seconds, wall time. Pure arithmetic over an injected clock."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import final

from steptune.core.event import SessionResumed
from steptune.core.job import BudgetSpec
from steptune.store.journal_lines import Entry


@final
@dataclass(kw_only=True, slots=True)
class Budget:
    """Counts from the session's start; a resumed session counts what was spent before it as well.

    Example: ``Budget(spec=job.budget, num_cores=2)`` after 100 s with 560 s allowed: ``wall_left_s() == 460``.
    """

    spec: BudgetSpec
    num_cores: int
    clock: Callable[[], float] = time.monotonic
    spent_before_s: float = 0.0
    """Wall seconds of earlier processes of the same session."""
    num_trials: int = 0
    kept_s: float = 0.0
    """Wall seconds that the running stage must leave to later ones."""
    started_s: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.started_s = self.clock()

    def spent_wall_s(self) -> float:
        """Wall seconds of the session so far."""
        return self.spent_before_s + self.clock() - self.started_s

    def spent_device_s(self) -> float:
        """Core-seconds: the session holds all its cores while it runs."""
        return self.spent_wall_s() * self.num_cores

    def wall_left_s(self) -> float:
        """Wall seconds left under both the wall and the device budget (negative when overspent)."""
        by_device = (self.spec.device_time_s - self.spent_device_s()) / self.num_cores
        return min(self.spec.wall_time_s - self.spent_wall_s(), by_device)

    def stage_left_s(self) -> float:
        """Wall seconds left to the running stage: all but what later ones have been promised."""
        return self.wall_left_s() - self.kept_s

    @contextmanager
    def keeping(self, seconds: float) -> Generator[None]:
        """Keep ``seconds`` from whatever runs inside: its own share ends where theirs begins."""
        before_s, self.kept_s = self.kept_s, seconds
        try:
            yield
        finally:
            self.kept_s = before_s

    def trials_left(self) -> int:
        """Trials that may still be started."""
        return max(0, self.spec.max_trials - self.num_trials)


def worked_s(entries: Sequence[Entry]) -> float:
    """Return the wall seconds that earlier processes of a session worked: from first to last entry of each.

    What a process did after its last entry is not known, and the time between a kill and its resume was not spent.
    """
    total_s = 0.0
    for before, entry in pairwise(entries):
        if not isinstance(entry.body, SessionResumed):
            passed = datetime.fromisoformat(entry.time) - datetime.fromisoformat(before.time)
            total_s += max(0.0, passed.total_seconds())
    return total_s
