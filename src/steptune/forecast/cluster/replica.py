"""One rollout replica that jumps from change to change instead of walking token by token.

::

    iteration    0 . . . . . . . 8 . . . 12 . . . . . . . . 23
    running      4               3        2                  (next row ends)
                 |---- jump 8 ---|- 4 ----|------ 11 --------|

Between two changes (a row ends or asks its environment, the cache fills, somebody arrives, weights come) every running
row gains one token per iteration, so the whole stretch has a closed form. An interruption in the middle of a stretch
cuts it at the end of the iteration in progress.

The surprise: a preempted row keeps its tokens and pays a prefill of all of them when it comes back.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.work import GroupShape, Wait


@final
@dataclass(kw_only=True, slots=True, eq=False)
class Group:
    """A group on its way."""

    index: int
    shape: GroupShape
    left: int
    start_version: int | None = None
    """Weights of its oldest token."""
    done_s: float = math.nan


@final
@dataclass(kw_only=True, slots=True, eq=False)
class Row:
    """A rollout on its way."""

    group: Group
    tokens: int
    waits: tuple[Wait, ...]
    made: int = 0
    """Tokens made before `since`."""
    since: int = 0
    """Iteration at which it was admitted last."""
    num_waited: int = 0
    stamp: int = 0
    """Counts admissions: a stop planned for an earlier one is void."""

    def next_stop(self) -> int:
        """Return the tokens at which it stops running next: a wait, or its end."""
        return self.waits[self.num_waited].at_token if self.num_waited < len(self.waits) else self.tokens


@final
@dataclass(kw_only=True, slots=True)
class Spent:
    """Seconds of one replica by what they went to."""

    decode: float = 0.0
    prefill: float = 0.0
    sync: float = 0.0
    env_wait: float = 0.0
    idle: float = 0.0


@final
@dataclass(kw_only=True, slots=True)
class Jump:
    """A stretch of iterations with the same rows."""

    start_s: float
    prefill_s: float
    first_s: float
    """Seconds of its first iteration."""
    growth_s: float
    """Seconds that each iteration takes more than the one before, by the cache that grows."""
    count: int

    def seconds(self, count: int) -> float:
        """Return the seconds of the first ``count`` iterations, prefill included."""
        return self.prefill_s + count * (self.first_s + self.growth_s * (count - 1) / 2)

    def count_until(self, now_s: float) -> int:
        """Return the iterations at whose end ``now_s`` has passed, at least one if there is one."""
        count = min(self.count, 1)
        if self.first_s + self.growth_s > 0:
            whole = math.floor((now_s - self.start_s - self.prefill_s) / (self.first_s + self.growth_s * self.count))
            count = min(max(count, whole), self.count)
        while count < self.count and self.start_s + self.seconds(count) < now_s:
            count += 1
        return count


@final
class Replica:
    """Makes the groups it is given; ``plan`` books its next event, ``ask`` hands a row to its environment."""

    def __init__(
        self,
        index: int,
        knobs: RolloutKnobs,
        costs: RolloutCosts,
        *,
        max_completion: int,
        in_flight: bool,
        reprefill: bool,
        plan: Callable[[float, int, int], None],
        ask: Callable[[float, float, "Replica", Row], None],
        done: Callable[[float, Group], None],
    ) -> None:
        self.index, self.knobs, self.costs = index, knobs, costs
        self.factor = costs.factor(index)
        self.max_completion, self.in_flight, self.reprefill = max_completion, in_flight, reprefill
        self.plan, self.ask, self.done = plan, ask, done
        self.counts_cache = knobs.kv_tokens is not None or costs.decode.per_cached_token_s > 0
        """Whether anything depends on the cached tokens: where nothing does they are not counted."""
        self.version = 0
        self.stamp = 0
        self.iteration = 0
        self.waiting: deque[Row] = deque()
        self.ready: deque[Row] = deque()
        self.running: dict[Row, None] = {}
        self.stops: list[tuple[int, int, int, Row]] = []
        self.num_away = 0
        self.num_stops = 0
        self.cached = 0
        self.holders: Counter[int] = Counter()
        """Rows of each group that hold cache."""
        self.prompts: set[int] = set()
        self.pending: tuple[int, float] | None = None
        self.jump: Jump | None = None
        self.is_pausing = False
        self.idle_since_s: float | None = 0.0
        self.spent = Spent()
        self.num_preempted = self.num_recomputed = self.num_made = 0

    def load(self, *, by_tokens: bool) -> float:
        """Return what is left to do, in rows or in predicted tokens."""
        count = len(self.waiting) + len(self.ready) + len(self.running) + self.num_away
        if not by_tokens:
            return count
        rows = [*self.waiting, *self.ready, *self.running]
        return math.fsum(max(predicted_row(row.group.shape) - self._made(row), 0.0) for row in rows)

    def submit(self, now_s: float, group: Group) -> None:
        """Take a group."""
        is_blocked = bool(self.waiting)
        self.waiting.extend(Row(group=group, tokens=row.tokens, waits=row.waits) for row in group.shape.rows)
        if not is_blocked and self._has_slot():
            self._interrupt(now_s)

    def update(self, now_s: float, version: int, pause_s: float) -> None:
        """Take new weights as soon as the rules allow, standing still for ``pause_s``."""
        self.pending = (version, pause_s + (self.pending[1] if self.pending else 0.0))
        self._interrupt(now_s)

    def answer(self, now_s: float, row: Row) -> None:
        """Take a row back from its environment; its cache was kept."""
        self.num_away -= 1
        row.num_waited += 1
        self.ready.append(row)
        if self._has_slot():
            self._interrupt(now_s)

    def event(self, now_s: float, stamp: int) -> None:
        """Go on at a booked time; a booking that was replaced does nothing."""
        if stamp != self.stamp:
            return
        self.is_pausing = False
        if self.jump is not None:
            self._land(now_s)
        self._go_on(now_s)

    def _book(self, at_s: float) -> None:
        self.stamp += 1
        self.plan(at_s, self.index, self.stamp)

    def _interrupt(self, now_s: float) -> None:
        if self.is_pausing:
            return
        if self.idle_since_s is not None:
            self._end_idle(now_s)
            # what arrives at the same instant shares the iteration
            self._book(now_s)
        elif self.jump is not None:
            count = self.jump.count_until(now_s)
            if count < self.jump.count:
                self.jump.count = count
                self._book(self.jump.start_s + self.jump.seconds(count))

    def _end_idle(self, now_s: float) -> None:
        if self.idle_since_s is not None:
            seconds = now_s - self.idle_since_s
            if self.num_away or self.ready:
                self.spent.env_wait += seconds
            else:
                self.spent.idle += seconds
            self.idle_since_s = None

    def _land(self, now_s: float) -> None:
        """End a jump: tokens, ends, waits, evictions."""
        assert self.jump is not None
        jump, self.jump = self.jump, None
        self.spent.prefill += jump.prefill_s
        self.spent.decode += jump.seconds(jump.count) - jump.prefill_s
        self.iteration += jump.count
        self.num_made += jump.count * len(self.running)
        if self.counts_cache and self.knobs.admission == "preempt":
            self.cached += jump.count * len(self.running)
        stops, iteration = self.stops, self.iteration
        while stops and stops[0][0] <= iteration:
            _, _, stamp, row = heapq.heappop(stops)
            if row.stamp == stamp and row in self.running:
                self._stop(now_s, row)
        if self.counts_cache:
            self._preempt()

    def _stop(self, now_s: float, row: Row) -> None:
        del self.running[row]
        row.made = row.next_stop()
        if row.made >= row.tokens:
            if self.counts_cache:
                self._let_go(row)
            self._end(now_s, row)
        else:
            self.num_away += 1
            self.ask(now_s, row.waits[row.num_waited].seconds, self, row)

    def _end(self, now_s: float, row: Row) -> None:
        group = row.group
        group.left -= 1
        if group.left == 0:
            group.done_s = now_s
            self.prompts.discard(group.index)
            self.done(now_s, group)

    def _go_on(self, now_s: float) -> None:
        if self.pending is not None and (self.in_flight or not (self.running or self.num_away or self.ready)):
            self._take_weights(now_s)
            return
        prefill_tokens = self._admit(now_s)
        running = len(self.running)
        if not running and not prefill_tokens:
            self.idle_since_s = now_s
            return
        count = self._count(running) if running else 0
        first_s = self.costs.decode.iteration_s(running, self._live_tokens()) * self.factor
        self.jump = Jump(
            start_s=now_s,
            prefill_s=self.costs.prefill_s(prefill_tokens) * self.factor,
            first_s=first_s,
            growth_s=self.costs.decode.per_cached_token_s * running * self.factor,
            count=count,
        )
        self._book(now_s + self.jump.seconds(count))

    def _live_tokens(self) -> float:
        if self.costs.decode.per_cached_token_s == 0:
            return 0.0
        if self.knobs.admission == "preempt":
            return self.cached
        return math.fsum(row.group.shape.prompt + self._made(row) for row in self.running)

    def _take_weights(self, now_s: float) -> None:
        assert self.pending is not None
        self.version, pause_s = self.pending
        self.pending = None
        if self.reprefill and self.running:
            live = sum(row.group.shape.prompt + self._made(row) for row in self.running)
            again_s = self.costs.prefill_s(live) * self.factor
            self.num_recomputed += live
            self.spent.prefill += again_s
            now_s += again_s
        self.spent.sync += pause_s
        self.is_pausing = True
        self._book(now_s + pause_s)

    def _count(self, running: int) -> int:
        """Return the iterations until something changes."""
        while self.stops[0][3] not in self.running or self.stops[0][3].stamp != self.stops[0][2]:
            heapq.heappop(self.stops)
        count = self.stops[0][0] - self.iteration
        limit = self.knobs.kv_tokens
        if limit is not None and self.knobs.admission == "preempt":
            count = min(count, max((limit - self.cached - running) // running + 1, 1))
        return count

    def _admit(self, now_s: float) -> int:
        """Let rows in while there is room; return the positions to compute."""
        prefill_tokens = 0
        if not self.waiting and not self.ready:
            return 0
        while self.ready and self._has_slot():
            if self._has_room(1):
                self._start(self.ready.popleft())
            elif self.running:
                break
            else:
                self._evict(self.ready.pop())
        if self.pending is not None and not self.in_flight:
            return 0
        while self.waiting and self._has_slot() and self._fits(self.waiting[0]):
            row = self.waiting.popleft()
            prefill_tokens += self._prefill(row)
            if row.group.start_version is None:
                row.group.start_version = self.version
            if row.tokens == 0:
                self._end(now_s, row)
                continue
            if self.counts_cache:
                self._hold(row)
            self._start(row)
        return prefill_tokens

    def _start(self, row: Row) -> None:
        row.since = self.iteration
        row.stamp += 1
        self.num_stops += 1
        self.running[row] = None
        stop_at = row.next_stop() if row.waits else row.tokens
        heapq.heappush(self.stops, (self.iteration + stop_at - row.made, self.num_stops, row.stamp, row))

    def _has_slot(self) -> bool:
        return self.knobs.max_rows is None or len(self.running) < self.knobs.max_rows

    def _has_room(self, tokens: int) -> bool:
        limit = self.knobs.kv_tokens
        if limit is None or self.knobs.admission == "reserve":
            return True
        return self.cached + len(self.running) + tokens <= limit

    def _fits(self, row: Row) -> bool:
        limit = self.knobs.kv_tokens
        if limit is None:
            return True
        if self.knobs.admission == "reserve":
            return self.cached + row.group.shape.prompt + self.max_completion <= limit
        return self._has_room(self._own_prompt(row) + row.made + 1 + self.knobs.unfilled_tokens)

    def _made(self, row: Row) -> int:
        return row.made + (self.iteration - row.since if row in self.running else 0)

    def _own_prompt(self, row: Row) -> int:
        """Return the positions of its prompt that nobody else holds for it."""
        is_shared = self.knobs.shares_cache and self.holders[row.group.index] > 0
        return 0 if is_shared else row.group.shape.prompt

    def _held(self, row: Row) -> int:
        own = self.max_completion if self.knobs.admission == "reserve" else self._made(row) + self.knobs.unfilled_tokens
        return self._own_prompt(row) + own

    def _hold(self, row: Row) -> None:
        self.cached += self._held(row)
        self.holders[row.group.index] += 1

    def _let_go(self, row: Row) -> None:
        self.holders[row.group.index] -= 1
        self.cached -= self._held(row)

    def _prefill(self, row: Row) -> int:
        prompt, index = row.group.shape.prompt, row.group.index
        if row.made:
            again = self._own_prompt(row) + row.made
            self.num_recomputed += again
            return again
        if self.knobs.share_prefill and index in self.prompts:
            return 0
        self.prompts.add(index)
        return prompt

    def _preempt(self) -> None:
        """Throw out the newest rows until each other one can take a token."""
        while self.running and not self._has_room(0):
            row = next(reversed(self.running))
            row.made = self._made(row)
            del self.running[row]
            self._evict(row)

    def _evict(self, row: Row) -> None:
        self._let_go(row)
        self.waiting.appendleft(row)
        self.num_preempted += 1


def predicted_row(shape: GroupShape) -> float:
    """Return the tokens a router expects of one row; without a prediction every row counts one."""
    return 1.0 if shape.predicted_tokens is None else shape.predicted_tokens / max(len(shape.rows), 1)
