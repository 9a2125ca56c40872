"""Memory that stays in use while the rollout engine sleeps: vLLM states it in a log line, never as a metric.

Growth of it announces an out-of-memory error many steps ahead, and far from its cause (NeMo RL #2619). Every engine
speaks for itself: their statements side by side are no trend, so each gets a series of its own.
"""

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import final

from steptune.core.paste import Series, SeriesPoint
from steptune.readers.scan.keep import RECENT_STEPS

SERIES_NAME = "memory_after_sleep_gib"
MAX_SPEAKERS = 64
"""Engines whose statements are kept apart; those of further ones are left out."""

_SPEAKER = re.compile(r"\b(?:pid=|\[?rank:?\s?)\d+")
_IN_USE = re.compile(r"(\d+(?:\.\d+)?) GiB memory is still in use")


@final
@dataclass(kw_only=True, slots=True)
class SleepWatcher:
    """Takes lines of one file in order, with what tells who speaks."""

    path: str
    _points: defaultdict[str, deque[SeriesPoint]] = field(
        default_factory=lambda: defaultdict[str, deque[SeriesPoint]](lambda: deque(maxlen=RECENT_STEPS))
    )
    """By speaker; "" is one that does not say who it is."""

    def take(self, number: int, raw: str) -> None:
        """Keep the statement of a line, if it has one; the log does not say which step it is in."""
        if "still in use" not in raw or (found := _IN_USE.search(raw)) is None:
            return
        speaker = _SPEAKER.search(raw)
        name = "" if speaker is None else speaker[0]
        if name in self._points or len(self._points) < MAX_SPEAKERS:
            self._points[name].append(SeriesPoint(step=None, value=float(found[1]), line=number))

    def series(self) -> tuple[Series, ...]:
        """Return one series per speaker, that with most statements first; nothing when the log has no such line."""
        ordered = sorted(self._points.items(), key=lambda item: -len(item[1]))
        return tuple(
            Series(name=SERIES_NAME, key=f"memory is still in use {name}".strip(), points=tuple(points), path=self.path)
            for name, points in ordered
        )
