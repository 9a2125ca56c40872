"""One rollout replica on the virtual clock: continuous batching under a row limit and a KV budget.

::

    waiting --admit: prefill--> running --token--> running | tools | done
       ^                          |                   |
       '---- preempted: cache full'                   '--> ready --admit: holds its cache already--> running

One event per decode iteration. New weights wait for the iteration's end, pause the replica, and then count for every
token after them; the cache is kept. The surprise: a preempted row keeps its tokens but not its cache, so it pays a
prefill of everything it had when it comes back.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from steptune.core.phase import Role, SpanKind
from steptune.engine.virtual.book import Book, Device
from steptune.engine.virtual.costs import Costs
from steptune.engine.virtual.event_queue import EventQueue
from steptune.engine.virtual.spec import ClusterSpec, slowdown_of
from steptune.engine.virtual.tools import ToolWorkers
from steptune.engine.virtual.work import Group, Row


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """What all replicas share."""

    spec: ClusterSpec
    costs: Costs
    events: EventQueue
    book: Book
    tools: ToolWorkers
    max_completion: int
    """Longest completion a row may have: what a reservation must hold."""
    on_done: Callable[[Group], None]
    """Called when the last row of a group has ended."""


@final
class Replica:
    """Generates the groups it is given."""

    def __init__(self, index: int, world: World) -> None:
        self.device = Device(role=Role.ROLLOUT, index=index)
        self.version = 0
        self.num_generated = self.num_recomputed = self.num_preempted = 0
        self._world = world
        self._slowdown = slowdown_of(world.spec.replica_slowdown, index)
        self._waiting: deque[Row] = deque()
        self._ready: deque[Row] = deque()
        self._running: list[Row] = []
        self._in_tools: list[Row] = []
        self._kv_used = 0
        self._prefilled: set[int] = set()
        self._update: tuple[int, float] | None = None
        self._is_at_work = False
        self._idle_since_s = 0.0

    def load(self, *, predicted: bool) -> float:
        """Return what is left to do, in rows, or in predicted tokens."""
        rows = [*self._waiting, *self._ready, *self._running, *self._in_tools]
        if not predicted:
            return len(rows)
        means = [(row.group.work.predicted / len(row.group.work.rows), row.generated) for row in rows]
        return sum(max(mean - done, 0.0) for mean, done in means)

    def submit(self, group: Group) -> None:
        """Take a group."""
        self._waiting.extend(Row(group=group, work=work) for work in group.work.rows)
        self._wake()

    def update(self, version: int, pause_s: float) -> None:
        """Take new weights at the end of the running iteration, standing still for ``pause_s``."""
        pending_s = 0.0 if self._update is None else self._update[1]
        self._update = (version, pending_s + pause_s)
        self._wake()

    def close(self) -> None:
        """Book the waiting that has not ended."""
        self._book_wait()

    def _wake(self) -> None:
        if not self._is_at_work:
            self._book_wait()
            self._is_at_work = True
            # what arrives at the same instant is to share the iteration
            self._world.events.after(0.0, self._begin)

    def _book_wait(self) -> None:
        if not self._is_at_work:
            now_s = self._world.events.now_s
            phase = "env_wait" if self._in_tools else "train"
            self._world.book.add(self.device, phase, SpanKind.EXPOSED_WAIT, self._idle_since_s, now_s)
            self._idle_since_s = now_s

    def _begin(self) -> None:
        if self._update is not None:
            self._take_weights()
            return
        num_new = self._admit()
        if not self._running:
            self._is_at_work = False
            self._idle_since_s = self._world.events.now_s
            return
        costs = self._world.costs
        seconds = costs.decode_s(len(self._running)) + (costs.prefill_s(num_new) if num_new else 0.0)
        self._spend("rollout", seconds * self._slowdown, self._finish)

    def _take_weights(self) -> None:
        assert self._update is not None
        self.version, pause_s = self._update
        self._update = None
        self._spend("weight_sync", pause_s, self._begin)

    def _spend(self, phase: str, seconds: float, then: Callable[[], None]) -> None:
        now_s = self._world.events.now_s
        self._world.book.add(self.device, phase, SpanKind.BUSY, now_s, now_s + seconds)
        self._world.events.after(seconds, then)

    def _admit(self) -> int:
        """Move rows to the running ones while there is room; return the positions to prefill."""
        num_new = 0
        self._admit_ready()
        while self._has_slot() and self._waiting and self._fits(self._waiting[0]):
            row = self._waiting.popleft()
            num_new += self._prefill_tokens(row)
            row.kv_tokens = row.group.work.prompt + row.generated
            self._kv_used += self._held(row)
            self._running.append(row)
            if row.group.start_version is None:
                row.group.start_version = self.version
        return num_new

    def _admit_ready(self) -> None:
        """Let rows that are back from a tool run again; they hold their cache already."""
        while self._has_slot() and self._ready:
            if self._has_room(1):
                self._running.append(self._ready.popleft())
            elif self._running:
                return
            else:
                self._evict(self._ready.pop())

    def _has_room(self, num_tokens: int) -> bool:
        """Return whether the cache holds that many tokens more after every running row has grown by one."""
        spec = self._world.spec
        if spec.kv_tokens is None or spec.over_budget == "reserve":
            return True
        return self._kv_used + len(self._running) + num_tokens <= spec.kv_tokens

    def _has_slot(self) -> bool:
        most = self._world.spec.max_rows
        return most is None or len(self._running) < most

    def _fits(self, row: Row) -> bool:
        spec, prompt = self._world.spec, row.group.work.prompt
        if spec.kv_tokens is not None and spec.over_budget == "reserve":
            return self._kv_used + prompt + self._world.max_completion <= spec.kv_tokens
        return self._has_room(prompt + row.generated + 1)

    def _held(self, row: Row) -> int:
        """Return the part of the budget an admitted row takes."""
        if self._world.spec.over_budget == "reserve":
            return row.group.work.prompt + self._world.max_completion
        return row.kv_tokens

    def _prefill_tokens(self, row: Row) -> int:
        if row.generated:
            self.num_recomputed += row.group.work.prompt + row.generated
            return row.group.work.prompt + row.generated
        if self._world.spec.share_prefill and row.group.index in self._prefilled:
            return 0
        self._prefilled.add(row.group.index)
        return row.group.work.prompt

    def _finish(self) -> None:
        """End an iteration: every running row has one token more."""
        rows, self._running = self._running, []
        done: list[Group] = []
        for row in rows:
            self._grow(row)
            if row.generated == row.work.completion:
                self._free(row)
                row.group.num_left -= 1
                done += [row.group] if row.group.is_done else []
            elif (call := row.next_tool) is not None:
                self._in_tools.append(row)
                self._world.tools.call(call.seconds, lambda r=row: self._return(r))
            else:
                self._running.append(row)
        self._preempt()
        for group in done:
            self._prefilled.discard(group.index)
            self._world.on_done(group)
        self._begin()

    def _grow(self, row: Row) -> None:
        before = self._held(row)
        row.generated += 1
        row.kv_tokens += 1
        self._kv_used += self._held(row) - before
        self.num_generated += 1

    def _free(self, row: Row) -> None:
        self._kv_used -= self._held(row)
        row.kv_tokens = 0

    def _return(self, row: Row) -> None:
        row.num_tools_done += 1
        self._book_wait()  # while it was away this was waiting for the environment
        self._in_tools.remove(row)
        self._ready.append(row)
        self._wake()

    def _preempt(self) -> None:
        """Throw out the newest running rows until every other can take one more token."""
        while self._running and not self._has_room(0):
            self._evict(self._running.pop())

    def _evict(self, row: Row) -> None:
        self._free(row)
        self._waiting.appendleft(row)
        self.num_preempted += 1
