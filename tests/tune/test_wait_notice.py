"""A session that waits for the machine says so, and not at every look."""

from steptune.store.lock import POLL_S
from steptune.tune.session import WAIT_NOTICE_S, wait_notice


def test_a_wait_is_said_at_once_and_then_once_in_a_while() -> None:
    said: list[str] = []
    wait = wait_notice(said.append)
    for number in range(int(2 * WAIT_NOTICE_S / POLL_S) + 1):
        wait(42, number * POLL_S)
    assert [text.split(", ")[1] for text in said] == ["0 s so far", "30 s so far", "60 s so far"]
    assert "pid 42" in said[0]
