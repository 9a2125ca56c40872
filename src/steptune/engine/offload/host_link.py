"""The link of a CPU: the caller computes, one background thread copies.

Storing and reloading share that thread, as a slow side with one arm does. The thread is started when a step first
copies something and has ended when the link is closed; the places stay, so only the first step makes them.
"""

import time
from collections.abc import Callable
from typing import Final, final

from steptune.engine.offload.link import Lanes
from steptune.engine.offload.places import SlowSide
from steptune.engine.offload.thread_lanes import CallerLane, ThreadLane, Work

COPIER = "activation copier"
"""Name of the thread."""


@final
class HostLink:
    """Owns the copier thread of one step; ``clock`` times copies and layers."""

    def __init__(self, slow: SlowSide, clock: Callable[[], float] = time.perf_counter) -> None:
        self.slow: Final = slow
        self.clock: Final[Callable[[], float] | None] = clock
        self._copier: Final = ThreadLane(COPIER)
        self.lanes: Final[Lanes[Work]] = Lanes(compute=CallerLane(), store=self._copier, load=self._copier)

    def close(self, *, is_interrupted: bool) -> None:
        """Finish the copies that are queued and end the thread; errors of copies nobody waits for are dropped."""
        self._copier.close()
