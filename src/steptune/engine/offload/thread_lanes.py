"""Lanes on a CPU: the caller's own thread, and a background thread with a queue.

An error on a thread is not lost and nobody hangs on it: work behind it is skipped, marks behind it are reached as
failed, and whoever waits for one gets the error itself. A mark is always enqueued before a wait for it, so
threads cannot wait for each other in a circle.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, final

Work = Callable[[], None]
"""One copy or one layer, run on the lane's thread."""


@final
class Mark:
    """A place in a lane's order that other lanes can wait for."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._error: BaseException | None = None

    def reach(self, error: BaseException | None = None) -> None:
        """Let everybody go on who waits here."""
        self._error = error
        self._reached.set()

    def wait(self) -> None:
        """Block this thread until the mark is reached; raise what stopped the lane on its way."""
        self._reached.wait()
        if self._error is not None:
            raise self._error


@final
class CallerLane:
    """The thread that calls: work runs at once, so every mark is reached when it is made."""

    def submit(self, work: Work) -> None:
        """Run ``work`` now."""
        work()

    def record(self) -> Mark:
        """Return a mark that is reached."""
        mark = Mark()
        mark.reach()
        return mark

    def wait(self, mark: Mark) -> None:
        """Block until ``mark`` is reached.

        Raises:
            BaseException: what stopped the other lane.
        """
        mark.wait()


@final
class ThreadLane:
    """One background thread with a queue; it lives from construction to `close`."""

    def __init__(self, name: str) -> None:
        self._queue: Final = SimpleQueue[Work | None]()
        self._error: BaseException | None = None
        self._thread: Final = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Run ``work`` behind everything submitted before; nothing if the lane has failed."""
        self._queue.put(lambda: self._attempt(work))

    def record(self) -> Mark:
        """Return a mark behind everything submitted before."""
        mark = Mark()
        self._queue.put(lambda: mark.reach(self._error))
        return mark

    def wait(self, mark: Mark) -> None:
        """Hold this lane until ``mark`` is reached."""
        self._queue.put(lambda: self._attempt(mark.wait))

    def synchronize(self) -> None:
        """Block the caller until everything submitted has run.

        Raises:
            BaseException: what stopped the lane.
        """
        self.record().wait()

    def close(self) -> None:
        """Finish what is queued and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _attempt(self, work: Work) -> None:
        if self._error is None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for a mark behind it
                self._error = error

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
