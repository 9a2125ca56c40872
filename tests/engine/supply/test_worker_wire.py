"""What a worker said before it left is what its trainer's error says, whoever was writing at the time."""

from multiprocessing import Pipe
from threading import Lock

import pytest

from steptune.engine.ahead.outbox import Outbox
from steptune.engine.pipes import send_failure, send_plain, unread_failure


def test_a_failure_that_lies_unread_is_the_cause_also_behind_an_answer() -> None:
    here, there = Pipe()
    send_plain(there, {"an answer": 1})
    send_failure(there, ValueError("no such tensor"))
    here.send("an order that nobody reads")
    there.close()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        here.send("another")
    assert unread_failure(here) == "ValueError: no such tensor"
    assert unread_failure(here) is None


def test_a_wire_without_a_failure_has_none() -> None:
    here, there = Pipe()
    assert unread_failure(here) is None
    there.close()
    assert unread_failure(here) is None


def test_a_message_that_cannot_leave_is_an_error_of_the_trainers_and_not_its_endless_wait() -> None:
    here, there = Pipe()
    outbox = Outbox(there)
    outbox.put(Lock())  # cannot be pickled
    outbox.close()
    assert unread_failure(here) == "TypeError: cannot pickle '_thread.lock' object"
