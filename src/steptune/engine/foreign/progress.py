"""Is a server that does not answer still at work? Asked of its own counter of iterations, by all who wait.

A request's time is that of everything that runs beside it, so no limit on it is right for a small batch and for a
large one. A server that hangs is one whose engine does nothing.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import final

from steptune.engine.events import Clock

NUM_LOOKS = 20
"""Looks at the counter before a server counts as hung: one that is not answered proves nothing."""


@final
class Progress:
    """Any thread may ask; one of them looks, at most once in ``look_s``."""

    def __init__(
        self,
        read: Callable[[], int | None],
        stall_s: float,
        *,
        look_s: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """``read`` returns the iterations so far, None for no answer; ``look_s`` None is ``stall_s`` / `NUM_LOOKS`."""
        self.stall_s, self.look_s = stall_s, stall_s / NUM_LOOKS if look_s is None else look_s
        self._read, self._clock, self._lock = read, clock, Lock()
        self._seen: int | None = None
        self._moved_s = self._looked_s = float("-inf")

    def is_stalled(self, since_s: float) -> bool:
        """Return whether nothing has moved for ``stall_s``; who asks has waited since ``since_s`` of the clock."""
        with self._lock:
            if self._clock() - self._looked_s >= self.look_s:
                seen = self._read()
                self._looked_s = self._clock()
                if seen is not None and seen != self._seen:
                    self._seen, self._moved_s = seen, self._looked_s
            return self._clock() - max(self._moved_s, since_s) > self.stall_s
