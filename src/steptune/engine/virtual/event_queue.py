"""The heart of a discrete-event simulation: what happens next, and when. Pure and deterministic.

The surprise: two events at the same time happen in the order in which they were planned, so that equal inputs give
equal runs, bit for bit.
"""

import heapq
import math
from collections.abc import Callable
from typing import final

Action = Callable[[], None]
"""What happens; it may plan further events."""


@final
class EventQueue:
    """A virtual clock and the events ahead of it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._num_planned = 0
        self._heap: list[tuple[float, int, Action]] = []

    def after(self, seconds: float, action: Action) -> None:
        """Plan ``action`` that many virtual seconds from now.

        Raises:
            ValueError: the delay is negative or not a finite number: time would run backwards or stand still.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"an event cannot be {seconds} s ahead")
        heapq.heappush(self._heap, (self.now_s + seconds, self._num_planned, action))
        self._num_planned += 1

    def run(self, until: Callable[[], bool]) -> bool:
        """Let events happen until ``until`` holds; return False if they ran out before."""
        while not until():
            if not self._heap:
                return False
            self.now_s, _, action = heapq.heappop(self._heap)
            action()
        return True
