"""Sends finished rounds while the next one is made.

A pipe holds 64 kB and a round is larger, so whoever writes waits until the trainer reads, which it does once a step.
One thread waits in the maker's place; it holds no lock of the interpreter while it does.
"""

import queue
import threading
from multiprocessing.connection import Connection
from typing import final

from steptune.engine.pipes import send_failure, send_plain


@final
class Outbox:
    """What was put in leaves in order."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.messages: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def put(self, message: object) -> None:
        """Send a message when its turn comes."""
        self.messages.put(message)

    def close(self) -> None:
        """Wait until everything is sent, or the other side has hung up."""
        self.messages.put(None)
        self.thread.join()

    def _send(self) -> None:
        try:
            while (message := self.messages.get()) is not None:
                send_plain(self.pipe, message)
        except (BrokenPipeError, ConnectionResetError):
            return  # the trainer has hung up; the maker sees it when it listens
        except Exception as error:  # noqa: BLE001  thread edge: the trainer would wait for what never leaves
            send_failure(self.pipe, error)
