"""One batch through a server with a paged cache, iteration by iteration: what a continuous-batching engine schedules.

::

    client      request . . request      one answer, one more: its slot stays empty for one iteration
                   |  every `request_s`
    scheduler   running rows take a block each when theirs is full; no block: the newest running row is thrown out
                waiting rows enter with room for all they have, prefixes found in the cache; one budget of positions
    iteration   curve(rows, cached tokens) + per_position_s x (positions - rows)

`replica` jumps from change to change and counts tokens; here blocks, their eviction, chunks of prompts and requests on
their way are counted, which costs a loop over every row and iteration: right for one server and a batch of some
hundred rows. Rules of vLLM 0.32's scheduler (https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py).
The surprise: nobody enters in an iteration that threw somebody out.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.errors import explain
from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.paged_cache import Block, Content, PagedCache
from steptune.forecast.cluster.work import GroupShape
from steptune.forecast.curve import ForecastError


@dataclass(frozen=True, kw_only=True, slots=True)
class PagedKnobs:
    """A server's limits and its client's: ``PagedKnobs(max_rows=8, num_blocks=24, at_once=6, ...)``."""

    max_rows: int
    """Rows running at once."""
    num_blocks: int
    """Blocks that rows may hold."""
    block_tokens: int
    keeps_prefixes: bool
    """Full blocks are found again by their content."""
    max_positions: int
    """Positions of one iteration: longer prompts are cut."""
    at_once: int | None = None
    """Requests that the client keeps on their way; None sends all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PagedCosts:
    """Its prices."""

    decode: DecodeCurve
    """Seconds of an iteration of so many rows, one position each."""
    per_position_s: float
    """Each position beyond a row's first one."""
    request_s: float = 0.0
    """Between two requests of a client that sends many: they come one after the other."""
    turn_s: float = 0.0
    """From an answer to the arrival of the next request, where nothing runs meanwhile; a batch pays it once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PagedBatch:
    """A batch: ``PagedBatch(seconds=1.7, num_iterations=231, num_preempted=0, computed=1708, found=0)``."""

    seconds: float
    num_iterations: int
    num_preempted: int
    computed: int
    """Positions computed beyond each row's one per iteration: prompts, and what was thrown out."""
    found: int
    """Positions found in the cache instead."""


@final
@dataclass(kw_only=True, slots=True, eq=False)
class _Row:
    group: int
    index: int
    prompt: int
    tokens: int
    made: int = 0
    computed: int = 0
    blocks: list[Block] = field(default_factory=list[Block])

    @property
    def known(self) -> int:
        return self.prompt + self.made

    def content(self, place: int, block_tokens: int) -> Content:
        """Return what block ``place`` holds when it is full: the group's, as long as it is prompt alone."""
        is_prompt = (place + 1) * block_tokens <= self.prompt
        return self.group, None if is_prompt else self.index, place


def paged_batch(knobs: PagedKnobs, costs: PagedCosts, groups: Sequence[GroupShape]) -> PagedBatch:
    """Make the groups of one batch on an empty cache, rows in their order.

    Raises:
        ForecastError: the cache does not hold the longest row.
    """
    rows = [
        _Row(group=g, index=i, prompt=group.prompt, tokens=row.tokens)
        for g, group in enumerate(groups)
        for i, row in enumerate(group.rows)
        if row.tokens
    ]
    most = max((row.prompt + row.tokens for row in rows), default=0)
    if -(-most // knobs.block_tokens) > knobs.num_blocks:
        raise ForecastError(
            explain(
                "the server's cache does not hold the longest row",
                got=f"{knobs.num_blocks} blocks of {knobs.block_tokens} for {most} tokens",
                allowed="at least the longest prompt and completion",
                hint="give it more blocks, or lower the completion limit",
            )
        )
    return _Server(knobs, costs, rows).run()


class _Server:
    def __init__(self, knobs: PagedKnobs, costs: PagedCosts, rows: Sequence[_Row]) -> None:
        self.knobs, self.costs = knobs, costs
        self.cache = PagedCache(num_blocks=knobs.num_blocks, keeps_prefixes=knobs.keeps_prefixes)
        at_once = len(rows) if knobs.at_once is None else min(knobs.at_once, len(rows))
        self.coming = deque((i * costs.request_s, row) for i, row in enumerate(rows[:at_once]))
        """The first requests: arrival, row."""
        self.unsent = deque(rows[at_once:])
        self.answered: deque[tuple[int, float, _Row]] = deque()
        """Requests that an answer let go: iterations until it, arrival if nothing runs, row."""
        self.waiting: deque[_Row] = deque()
        self.running: list[_Row] = []
        self.now_s = 0.0
        self.num_iterations = self.num_preempted = self.computed = self.found = 0

    def run(self) -> PagedBatch:
        while self.coming or self.answered or self.waiting or self.running:
            if not (self.waiting or self.running):
                self._idle()
            self._arrive()
            self._iterate()
        return PagedBatch(
            seconds=self.now_s + self.costs.turn_s,
            num_iterations=self.num_iterations,
            num_preempted=self.num_preempted,
            computed=self.computed,
            found=self.found,
        )

    def _idle(self) -> None:
        """Wait for the next request, as nothing runs."""
        if self.answered and (not self.coming or self.answered[0][1] < self.coming[0][0]):
            _, at_s, row = self.answered.popleft()
            self.waiting.append(row)
        else:
            at_s, _ = self.coming[0]
        self.now_s = max(self.now_s, at_s)

    def _arrive(self) -> None:
        """Take what is here: the first requests by time, one after an answer when another iteration has run."""
        while self.coming and self.coming[0][0] <= self.now_s:
            self.waiting.append(self.coming.popleft()[1])
        while self.answered and self.answered[0][0] < self.num_iterations:
            self.waiting.append(self.answered.popleft()[2])

    def _iterate(self) -> None:
        """Schedule, let the iteration pass, and take its tokens."""
        scheduled, was_full = self._schedule_running()
        if not was_full:
            scheduled += self._admit(self.knobs.max_positions - sum(count for _, count in scheduled))
        positions = sum(count for _, count in scheduled)
        cached = sum(row.computed for row, _ in scheduled)
        curve_s = self.costs.decode.iteration_s(len(scheduled), cached)
        self.now_s += curve_s + self.costs.per_position_s * (positions - len(scheduled))
        self.computed += positions - len(scheduled)
        self.num_iterations += 1
        for row, count in scheduled:
            row.computed += count
            if row.computed == row.known:
                row.made += 1
                if row.made == row.tokens:
                    self._end(row)

    def _schedule_running(self) -> tuple[list[tuple[_Row, int]], bool]:
        """Return the running rows with their positions, oldest first, and whether one had to be thrown out."""
        scheduled, left, num_before = list[tuple[_Row, int]](), self.knobs.max_positions, self.num_preempted
        place = 0
        while place < len(self.running) and left:
            row = self.running[place]
            count = min(row.known - row.computed, left)
            while place < len(self.running) and not self._grow(row, row.computed + count):
                self._throw_out(self.running.pop())
            if place == len(self.running):
                break
            scheduled.append((row, count))
            left -= count
            place += 1
        return scheduled, self.num_preempted > num_before

    def _admit(self, left: int) -> list[tuple[_Row, int]]:
        scheduled: list[tuple[_Row, int]] = []
        while self.waiting and left and len(self.running) < self.knobs.max_rows:
            row, size = self.waiting[0], self.knobs.block_tokens
            # the last position is always computed: its logits are wanted
            full = (row.known - 1) // size if self.knobs.keeps_prefixes else 0
            hits = self.cache.find([row.content(place, size) for place in range(full)])
            if self.cache.num_missing(hits, -(-row.known // size)) > self.cache.num_free:
                break
            self.waiting.popleft()
            self.cache.use(hits)
            row.blocks, row.computed = hits, len(hits) * size
            count = min(row.known - row.computed, left)
            self._grow(row, row.computed + count)
            self.found += row.computed
            self.running.append(row)
            scheduled.append((row, count))
            left -= count
        return scheduled

    def _grow(self, row: _Row, positions: int) -> bool:
        """Take the blocks that a row needs for so many positions; False, and nothing taken, if there are too few."""
        size = self.knobs.block_tokens
        more = -(-positions // size) - len(row.blocks)
        if more > self.cache.num_free:
            return False
        row.blocks += self.cache.take(max(more, 0))
        for place in range(row.computed // size, positions // size):
            self.cache.fill(row.blocks[place], row.content(place, size))
        return True

    def _throw_out(self, row: _Row) -> None:
        self.cache.let_go(row.blocks)
        row.blocks, row.computed = [], 0
        self.waiting.appendleft(row)
        self.num_preempted += 1

    def _end(self, row: _Row) -> None:
        self.running.remove(row)
        self.cache.let_go(row.blocks)
        if self.unsent:
            self.answered.append((self.num_iterations, self.now_s + self.costs.turn_s, self.unsent.popleft()))
