"""Environment workers: a tool call takes one of them for a while, and waits first when all are taken."""

from collections import deque
from typing import final

from steptune.core.phase import Role, SpanKind
from steptune.engine.virtual.book import Book, Device
from steptune.engine.virtual.event_queue import Action, EventQueue


@final
class ToolWorkers:
    """First come, first served."""

    def __init__(self, num_workers: int, events: EventQueue, book: Book) -> None:
        self._events, self._book = events, book
        self._free = deque(range(num_workers))
        self._waiting: deque[tuple[float, Action]] = deque()

    def call(self, seconds: float, then: Action) -> None:
        """Serve a call of that many seconds, then do ``then``."""
        self._waiting.append((seconds, then))
        self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            worker = self._free.popleft()
            seconds, then = self._waiting.popleft()
            start_s = self._events.now_s
            self._events.after(seconds, lambda w=worker, s=start_s, t=then: self._finish(w, s, t))

    def _finish(self, worker: int, start_s: float, then: Action) -> None:
        device = Device(role=Role.ENVIRONMENT, index=worker)
        self._book.add(device, "env_wait/tool", SpanKind.BUSY, start_s, self._events.now_s)
        self._free.append(worker)
        self._serve()
        then()
