"""One end of the wire to a process, whoever started it: orders go out, answers come back, and so does its end.

A wire may be lent: the trainer starts every process, so that each dies with it and is stopped by its id, but a rollout
replica takes its orders from the process that shares a batch out. The surprise: only a parent learns an exit code, so
whoever has borrowed a wire says that the process died, and with which last words, but not of what signal.
"""

import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any, Generic, TypeVar, final

from steptune.core.errors import KilledError, TrialError, explain
from steptune.engine.pipes import send_plain, unread_failure

LAST_WORDS = 3
"""Lines of its log that an error shows."""

Answer = TypeVar("Answer")
"""What comes back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lent:
    """A wire on its way to another process; pickled at that process's start."""

    name: str
    """What errors call the process at the other end: ``rollout replica 1 (process 4711)``."""
    log: Path
    pid: int
    pipe: Connection

    def end(self) -> "WireEnd[Any]":
        """Return this end, in the process that has borrowed it."""
        return WireEnd(self.name, self.log, self.pipe, lambda: _kill(self.pid), lambda: "")


@final
class WireEnd(Generic[Answer]):
    """Sends and receives; names the process that dies, fails or hangs."""

    def __init__(
        self, name: str, log: Path, pipe: Connection, kill: Callable[[], None], cause: Callable[[], str]
    ) -> None:
        """``kill`` stops the process by its id; ``cause`` waits for its end and says what it was, if it can."""
        self.name, self.log, self.pipe, self.kill, self._cause = name, log, pipe, kill, cause
        self.doing = ""
        """What the process was last asked to do, for an error to say."""

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            TrialError: the process died.
        """
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def send_plain(self, message: object, patience_s: float) -> None:
        """Send a message whose tensors go by value. A large one waits for the other side to read it.

        Raises:
            TrialError: the process died, or has not read it for ``patience_s`` and was killed.
        """
        watchdog = Timer(patience_s, self.kill)
        watchdog.start()
        try:
            send_plain(self.pipe, message)
        except (BrokenPipeError, ConnectionResetError):
            raise (self.hangs(patience_s) if watchdog.finished.is_set() else self._ended()) from None
        finally:
            watchdog.cancel()

    def has_answer(self) -> bool:
        """Return whether `receive` would return at once. A dead process's end is an answer too."""
        return self.pipe.poll(0)

    def receive(self, patience_s: float | None = None) -> Answer:
        """Wait for the next message, written by `send_plain`; None waits as long as the process lives.

        Raises:
            TrialError: the process died or failed, or has not answered for ``patience_s`` and was killed.
        """
        if not self.pipe.poll(patience_s):
            raise self.hangs(patience_s)
        try:
            answer = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(answer, str):
            raise self._failed(answer)
        return answer

    def close(self, *, at_once: bool = False) -> None:
        """Hang up, ``at_once`` by killing the process, because nobody wants what it is at."""
        self.pipe.close()
        if at_once:
            self.kill()

    def hangs(self, patience_s: float | None) -> TrialError:
        """Kill the process and return why: nothing came of it for ``patience_s``."""
        self.kill()
        self._cause()
        return TrialError(
            explain(
                f"the {self.name} gave no answer{self.doing} and was stopped",
                got=f"{patience_s:.3g} s without one; last words: {last_words(self.log)}",
                allowed="an answer in about the time that its sibling takes for its own part",
                hint="is the machine swapping, or the process stopped? go on from the last checkpoint",
            )
        )

    def _failed(self, why: str) -> TrialError:
        return TrialError(f"the {self.name} failed{self.doing}: {why}")

    def _ended(self) -> TrialError:
        """Return why nobody reads: the cause it sent before it left, if it had the time."""
        why = unread_failure(self.pipe)
        return self._died() if why is None else self._failed(why)

    def _died(self) -> TrialError:
        cause = self._cause()
        kind = KilledError if signal.SIGKILL.name in cause else TrialError
        return kind(
            explain(
                f"the {self.name} died{self.doing}{cause}",
                got=f"last words: {last_words(self.log)}",
                allowed="a worker that lives as long as the run",
                hint="was it the kernel, for want of memory? go on from the last checkpoint, if the run keeps some",
            )
        )


def last_words(log: Path) -> str:
    """Return the last lines of a worker's log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "none"
    return " | ".join(line.strip() for line in lines[-LAST_WORDS:] if line.strip()) or "none"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
