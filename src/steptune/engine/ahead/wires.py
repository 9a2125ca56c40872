"""The trainer's wires to all replicas of an asynchronous rollout: a message as it comes, whoever sends it.

A replica that dies is heard at once: its end is a message. One that hangs is heard when nothing has come of anybody for
long, which is soon, because the others may not run ahead of it further than the bound; the one to blame makes the place
that the trainer waits for.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from typing import Protocol, final

from steptune.engine.ahead.messages import Made, Paused, Standing
from steptune.engine.events import Clock
from steptune.engine.patience import PATIENCE_FACTOR
from steptune.engine.worker import WorkerProcess


class Wires(Protocol):
    """`ProcessWires`, or workers in a test's own process."""

    def send(self, replica: int, standing: Standing) -> None:
        """Say something to one of them; never waits."""
        ...

    def has_answer(self) -> bool:
        """Return whether `receive` would return at once."""
        ...

    def receive(self, waits_for: int) -> tuple[int, Made | Paused]:
        """Wait for the next message of any replica, ``waits_for`` being the one that owes one.

        Raises:
            TrialError: a replica died or failed, or the one that owes a message hangs.
        """
        ...

    def close(self) -> None:
        """Stop all of them."""
        ...


@final
class ProcessWires:
    """Replicas in processes of their own."""

    def __init__(
        self, ends: Sequence[WorkerProcess[Made | Paused]], patience_s: float, clock: Clock = time.perf_counter
    ) -> None:
        """``patience_s``: silence of all before one of them hangs, until a longer one has been seen to end."""
        self.ends, self.patience_s, self.clock = tuple(ends), patience_s, clock

    def send(self, replica: int, standing: Standing) -> None:
        """See `Wires`."""
        self.ends[replica].send(standing)

    def has_answer(self) -> bool:
        """See `Wires`."""
        return any(end.has_answer() for end in self.ends)

    def receive(self, waits_for: int) -> tuple[int, Made | Paused]:
        """See `Wires`. A single worker is waited for as long as it lives."""
        if len(self.ends) == 1:
            return 0, self.ends[0].receive()
        start_s = self.clock()
        if not self.has_answer() and not wait([end.pipe for end in self.ends], self.patience_s):
            raise self.ends[waits_for].end.hangs(self.patience_s)
        self.patience_s = max(self.patience_s, PATIENCE_FACTOR * (self.clock() - start_s))
        replica = next(r for r, end in enumerate(self.ends) if end.has_answer())
        return replica, self.ends[replica].receive()

    def close(self) -> None:
        """See `Wires`."""
        with ExitStack() as stack:
            for end in self.ends:
                stack.callback(end.close)
