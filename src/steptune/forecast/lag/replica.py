"""One rollout replica of a stream: slots, rows, and the version of the weights that samples each token.

It jumps from change to change (a row ends, new weights are published) instead of walking iteration by iteration. The
rules are those of a stream of groups that is fed as far as the age bound allows (docs/design/async.md): new weights are
taken between two iterations, or where nothing is in the making, and until then those held are used as far as the bound
lets them be.
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass
from typing import final

from steptune.core.lag import StreamLag
from steptune.forecast.lag.costs import StreamCosts

Rows = tuple[tuple[int, int], ...]
"""(prompt, completion) tokens of a group's rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """New weights: ``Published(at_s=1.2, version=3, num_gone=24)`` with the groups trained on until then."""

    at_s: float
    version: int
    num_gone: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DoneGroup:
    """A complete group: when, and its tokens by the version that sampled them."""

    place: int
    at_s: float
    tokens: Counter[int]
    num_tokens: int
    """Prompt and completion: what training it costs goes by."""


@dataclass(kw_only=True, slots=True)
class _Making:
    place: int
    rows: Rows
    num_left: int
    tokens: Counter[int]


@final
class Replica:
    """Its clock never runs ahead of what it has heard by more than one stretch of equal rows."""

    def __init__(self, plan: StreamLag, costs: StreamCosts) -> None:
        self.plan, self.costs = plan, costs
        self.clock_s = 0.0
        self.places = deque[tuple[int, Rows]]()
        """Handed out and not begun."""
        self.heard = self.held = Published(at_s=0.0, version=0, num_gone=0)
        self._has_weights = False
        self._iteration = 0
        self._running: list[tuple[int, int, int, _Making]] = []
        """(iteration after which it ends, tie, first iteration, its group)"""
        self._waiting = deque[tuple[int, int, _Making]]()
        """(prompt, completion, its group)"""
        self._making: dict[int, _Making] = {}
        self._marks: list[tuple[int, int]] = []
        """(first iteration, version), rising."""
        self._tie = 0
        self._admit_at = max(1, int(plan.num_slots * plan.admit_frac))
        self._whole = min(plan.group_size, plan.num_slots)

    @property
    def num_open(self) -> int:
        """Groups that were handed out and are not complete."""
        return len(self.places) + len(self._making)

    @property
    def can_go_on(self) -> bool:
        """Whether a turn would do something before anything new is published."""
        return bool(self._making) or self._may_begin(self.heard.num_gone)

    def turn(self, next_at_s: float) -> list[DoneGroup]:
        """Go on until groups are complete, ``next_at_s`` (the next publication) has passed, or nothing is left."""
        self._take_weights()
        plan, is_dry = self.plan, False
        while True:
            free = plan.num_slots - len(self._running)
            if not is_dry and free - len(self._waiting) >= max(self._admit_at, self._whole):
                self._refill()
                is_dry = not self._waiting
            if not self._making:
                return []
            if self._waiting and free >= min(self._admit_at, len(self._waiting)):
                self._admit(free)
            done = self._decode(next_at_s)
            if done or self.clock_s >= next_at_s:
                return done

    def _take_weights(self) -> None:
        is_behind = not self._has_weights or self.held.version < self.heard.version
        if is_behind and (self.plan.takes_in_flight or not self._making):
            self.clock_s += self.costs.load_s
            self.held, self._has_weights = self.heard, True
            self._marks.append((self._iteration, self.held.version))

    def _may_begin(self, num_gone: int) -> bool:
        return bool(self.places) and self.places[0][0] < num_gone + self.plan.capacity

    def _refill(self) -> None:
        while self.plan.num_slots - len(self._running) - len(self._waiting) >= self._whole:
            if not self._may_begin(self.held.num_gone):
                return
            place, rows = self.places.popleft()
            made = self._making[place] = _Making(place=place, rows=rows, num_left=len(rows), tokens=Counter())
            self._waiting.extend((prompt, completion, made) for prompt, completion in rows)

    def _admit(self, num_free: int) -> None:
        admitted = [self._waiting.popleft() for _ in range(min(num_free, len(self._waiting)))]
        head_len = max(prompt for prompt, _, _ in admitted) - 1
        num_heads = len({made.place for _, _, made in admitted}) if self.plan.share_prefill else len(admitted)
        if head_len > 0:
            self.clock_s += self.costs.prefill_s(num_heads * head_len)
        for _, completion, made in admitted:
            self._tie += 1
            end = self._iteration + max(1, completion)
            heapq.heappush(self._running, (end, self._tie, self._iteration, made))

    def _decode(self, next_at_s: float) -> list[DoneGroup]:
        """Decode to the next row's end, or to the iteration during which something is published."""
        one_s = self.costs.decode_s(len(self._running))
        count = self._running[0][0] - self._iteration
        if one_s > 0 and self.clock_s + count * one_s > next_at_s:
            count = min(count, max(1, math.ceil((next_at_s - self.clock_s) / one_s)))
        self._iteration += count
        self.clock_s += count * one_s
        done: list[DoneGroup] = []
        while self._running and self._running[0][0] == self._iteration:
            end, _, first, made = heapq.heappop(self._running)
            self._book(made.tokens, first, end)
            made.num_left -= 1
            if not made.num_left:
                done.append(self._leave(made))
        return done

    def _book(self, tokens: Counter[int], first: int, end: int) -> None:
        """Count the tokens of iterations ``first`` to ``end`` by the version that sampled them."""
        index = bisect_right(self._marks, (first, math.inf)) - 1
        while first < end:
            until = self._marks[index + 1][0] if index + 1 < len(self._marks) else end
            tokens[self._marks[index][1]] += min(until, end) - first
            first, index = max(first, min(until, end)), index + 1

    def _leave(self, made: _Making) -> DoneGroup:
        del self._making[made.place]
        self.clock_s += self.costs.group_s
        num_tokens = sum(prompt + completion for prompt, completion in made.rows)
        return DoneGroup(place=made.place, at_s=self.clock_s, tokens=made.tokens, num_tokens=num_tokens)
