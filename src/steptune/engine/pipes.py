"""Messages between the trainer and its workers, by value, and the failure that may be the last of them."""

import pickle
from contextlib import suppress
from multiprocessing.connection import Connection


def send_plain(pipe: Connection, message: object) -> None:
    """Send tensors by value: torch's own way would leave them in a process that may be dead when they are read."""
    pipe.send_bytes(pickle.dumps(message))


def send_failure(pipe: Connection, error: Exception) -> None:
    """Tell the trainer what ends this worker; the trainer raises it, with the worker's name."""
    send_plain(pipe, f"{type(error).__name__}: {error}")


def unread_failure(pipe: Connection) -> str | None:
    """Return the failure that lies unread in a wire whose other end is closed; what lies before it is thrown away."""
    with suppress(EOFError, OSError):
        while pipe.poll(0):
            answer = pickle.loads(pipe.recv_bytes())
            if isinstance(answer, str):
                return answer
    return None
