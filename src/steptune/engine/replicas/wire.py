"""The ordering end of the wire to one replica: orders with numbers, answers in their turn, and a limit to waiting.

A failure of one's own part leaves an answer outstanding. Another order hears that one first: a pipe holds little, and
two that write into full ones wait for each other.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar, final

from steptune.engine.events import Clock
from steptune.engine.patience import MIN_PATIENCE_S, PATIENCE_FACTOR
from steptune.engine.replicas.messages import Answer, Generated, Loaded, Order
from steptune.engine.replicas.replica import serve_replica
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerProcess, WorkerSpec

Kind = TypeVar("Kind", Loaded, Generated)


class Stoppable(Protocol):
    """Whatever holds a process."""

    def close(self, *, at_once: bool = False) -> None:
        """Stop the process, ``at_once`` in the middle of its work."""
        ...


class ReplicaEnd(Stoppable, Protocol):
    """The wire itself: `WorkerProcess`, one that was lent (`wire_end`), or a replica in a test's own process."""

    doing: str

    def send_plain(self, message: object, patience_s: float) -> None:
        """Send an order."""
        ...

    def receive(self, patience_s: float | None = None) -> Answer:
        """Wait for the next answer. Raises TrialError when the replica died, failed or hangs."""
        ...


End = TypeVar("End")

StartReplica = Callable[[WorkerSpec, WeightChannel], End]
"""Starts a replica."""


def start_process(spec: WorkerSpec, channel: WeightChannel) -> WorkerProcess[Answer]:
    """Start it in a process of its own."""
    return WorkerProcess[Answer](spec, serve_replica, channel)


@final
class ReplicaWire:
    """One order at a time."""

    def __init__(self, end: ReplicaEnd, clock: Clock = time.perf_counter) -> None:
        self.end, self.clock, self.patience_s = end, clock, MIN_PATIENCE_S
        self.number = self.heard = 0
        """Of the last order, and of the last answer."""
        self.ordered_s = 0.0

    def order(self, order: Order, doing: str) -> None:
        """Send an order, numbered here; ``doing`` is what an error says the replica was asked.

        Raises:
            TrialError: the replica died, failed or hangs.
        """
        while self.heard < self.number:
            self.heard = self.end.receive(self.patience_s).number  # of an order that was given up
        self.number += 1
        self.end.doing = doing
        self.end.send_plain(replace(order, number=self.number), self.patience_s)
        self.ordered_s = self.clock()

    def collect(self, kind: type[Kind]) -> Kind:
        """Wait for the answer to the last order; the longer, the longer the own part took that was done meanwhile.

        Raises:
            TrialError: the replica died, failed or hangs.
        """
        answer = self.end.receive(max(self.patience_s, PATIENCE_FACTOR * (self.clock() - self.ordered_s)))
        self.heard = answer.number
        assert answer.number == self.number, "every order waits for the answer to the one before"
        assert isinstance(answer, kind), f"{type(answer).__name__} answers another order"
        return answer

    def close(self) -> None:
        """Stop the replica, at once where nobody waits for what it is at."""
        self.end.close(at_once=self.heard < self.number)
