"""Memory that stays in use while the rollout engine sleeps: vLLM states it in a log line, never as a metric.

Growth of it announces an out-of-memory error many steps ahead, and far from its cause (NeMo RL #2619).
"""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import final

from steptune.core.paste import Series, SeriesPoint
from steptune.readers.scan.keep import RECENT_STEPS

SERIES_NAME = "memory_after_sleep_gib"
_IN_USE = re.compile(r"(\d+(?:\.\d+)?) GiB memory is still in use")


@final
@dataclass(kw_only=True, slots=True)
class SleepWatcher:
    """Takes clean lines of one file in order."""

    path: str
    _points: deque[SeriesPoint] = field(default_factory=lambda: deque[SeriesPoint](maxlen=RECENT_STEPS))

    def take(self, number: int, text: str) -> None:
        """Keep the statement of a line, if it has one; the log does not say which step it is in."""
        if "still in use" in text and (found := _IN_USE.search(text)):
            self._points.append(SeriesPoint(step=None, value=float(found[1]), line=number))

    def series(self) -> tuple[Series, ...]:
        """Return the series, or nothing when the log has no such line."""
        points = tuple(self._points)
        key = "memory is still in use"
        return (Series(name=SERIES_NAME, key=key, points=points, path=self.path),) if points else ()
