"""Replicas, their environments and a clock: who makes which group, and when it is whole.

Used twice: once for the makespan of a batch, once inside the asynchronous queue. Deterministic: events at the same
instant happen in the order in which they were booked.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from steptune.core.errors import explain
from steptune.forecast.cluster.replica import Group, Replica, Row, Spent
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.work import GroupShape, Work
from steptune.forecast.curve import ForecastError

Booking = tuple[float, int, Replica | None, int, Callable[[float], None] | None]


@final
class Pool:
    """Use once. ``on_done`` is called with the time and the group."""

    def __init__(
        self,
        knobs: RolloutKnobs,
        costs: RolloutCosts,
        work: Work,
        *,
        in_flight: bool = True,
        reprefill: bool = False,
        on_done: Callable[[float, Group], None],
    ) -> None:
        if not knobs.holds(work.longest_row):
            raise ForecastError(
                explain(
                    "a replica's cache does not hold the longest row",
                    got=f"{knobs.kv_tokens} tokens for rows of up to {work.longest_row}",
                    allowed="at least the longest prompt and completion",
                    hint="give a replica more devices, or lower the completion limit",
                )
            )
        self.knobs = knobs
        self.now_s = 0.0
        self._heap: list[Booking] = []
        self._num_booked = 0
        self._free = knobs.num_env_workers
        self._calls: deque[tuple[float, Replica, Row]] = deque()
        self.turn = 0
        """Replica that gets the next group in turn."""
        self.replicas = [
            Replica(
                i,
                knobs,
                costs,
                max_completion=work.max_completion,
                in_flight=in_flight,
                reprefill=reprefill,
                plan=self._plan,
                ask=self._ask,
                done=on_done,
            )
            for i in range(knobs.num_replicas)
        ]

    def after(self, seconds: float, then: Callable[[float], None]) -> None:
        """Do something later."""
        self._push(self.now_s + seconds, None, 0, then)

    def submit(self, groups: Sequence[Group]) -> None:
        """Hand groups out by the routing rule."""
        for group, replica in self._routed(groups):
            self.replicas[replica].submit(self.now_s, group)

    def update(self, version: int, pause_s: float) -> None:
        """Send new weights to every replica."""
        for replica in self.replicas:
            replica.update(self.now_s, version, pause_s)

    def run(self, until: Callable[[], bool]) -> bool:
        """Let time pass until ``until`` holds; False if nothing is left to happen before."""
        while not until():
            if not self._heap:
                return False
            self.now_s, _, replica, stamp, then = heapq.heappop(self._heap)
            if replica is not None:
                replica.event(self.now_s, stamp)
            elif then is not None:
                then(self.now_s)
        return True

    def spent(self) -> list[Spent]:
        """Return every replica's seconds so far; a jump in progress counts when it lands."""
        return [
            Spent(decode=s.decode, prefill=s.prefill, sync=s.sync, env_wait=s.env_wait, idle=s.idle)
            for s in (replica.spent for replica in self.replicas)
        ]

    def _push(self, at_s: float, replica: Replica | None, stamp: int, then: Callable[[float], None] | None) -> None:
        self._num_booked += 1
        heapq.heappush(self._heap, (at_s, self._num_booked, replica, stamp, then))

    def _plan(self, at_s: float, index: int, stamp: int) -> None:
        self._push(at_s, self.replicas[index], stamp, None)

    def _ask(self, now_s: float, seconds: float, replica: Replica, row: Row) -> None:
        if self._free is None:
            self._push(now_s + seconds, None, 0, lambda at_s: replica.answer(at_s, row))
            return
        self._calls.append((seconds, replica, row))
        self._serve(now_s)

    def _serve(self, now_s: float) -> None:
        while self._free and self._calls:
            self._free -= 1
            seconds, replica, row = self._calls.popleft()
            self._push(now_s + seconds, None, 0, lambda at_s, to=replica, r=row: self._served(at_s, to, r))

    def _served(self, now_s: float, replica: Replica, row: Row) -> None:
        assert self._free is not None
        self._free += 1
        self._serve(now_s)
        replica.answer(now_s, row)

    def _routed(self, groups: Sequence[Group]) -> list[tuple[Group, int]]:
        count = len(self.replicas)
        if self.knobs.routing == "round_robin":
            first = self.turn
            self.turn = (self.turn + len(groups)) % count
            return [(group, (first + i) % count) for i, group in enumerate(groups)]
        by_tokens = self.knobs.routing == "longest_first"
        loads = [(replica.load(by_tokens=by_tokens), i) for i, replica in enumerate(self.replicas)]
        heapq.heapify(loads)
        ordered = sorted(groups, key=lambda g: -_size(g.shape, by_tokens=True)) if by_tokens else groups
        routed: list[tuple[Group, int]] = []
        for group in ordered:
            load, replica = loads[0]
            heapq.heapreplace(loads, (load + _size(group.shape, by_tokens=by_tokens), replica))
            routed.append((group, replica))
        return routed


def fresh(index: int, shape: GroupShape) -> Group:
    """Return a group that nobody has begun."""
    return Group(index=index, shape=shape, left=len(shape.rows))


def _size(shape: GroupShape, *, by_tokens: bool) -> float:
    if not by_tokens or shape.predicted_tokens is None:
        return len(shape.rows)
    return shape.predicted_tokens
