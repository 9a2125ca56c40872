"""How many iterations partial rollouts take, and with how many rows: `engine.stream.carry`, in counts.

A step decodes more groups than it trains on and stops when enough are whole; the others go on in the next one. The
surprise: what goes on is prefilled again, prompt and all that it has said, row by row, since no cache is kept.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

from steptune.adapters.embedded.decode_plan import ADMIT_FRAC, StreamCounts

WARMUP_STEPS = 4
"""Steps before any is counted: the first begins more groups than any other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """``_Row(place=3, prompt=9, left=12, said=0)``: lengths in tokens."""

    place: int
    """Of its group, in the order in which groups are begun."""
    prompt: int
    left: int
    said: int


@final
@dataclass(kw_only=True, slots=True)
class _Carrying:
    """Groups in the making, whole ones that wait, and whatever they cost."""

    per_step: int
    max_lag_steps: int
    num_slots: int
    share_prefill: bool
    making: dict[int, list[_Row]]
    begun: dict[int, int]
    """Step in which a group was begun, by place."""
    ready: list[int]
    said: dict[int, Counter[int]] = field(default_factory=dict[int, Counter[int]])
    """Tokens by the step that sampled them, by place; gone when the group is taken."""

    def step(self, number: int, counts: StreamCounts) -> None:
        """Decode until step ``number`` may stop, and take its groups."""
        waiting = [row for place in sorted(self.making) for row in self.making[place]]
        running: list[_Row] = []
        left = {place: len(rows) for place, rows in self.making.items()}
        due = {place for place in self.making if number + 1 - self.begun[place] > self.max_lag_steps}
        while len(self.ready) < self.per_step or due:
            num_free = self.num_slots - len(running)
            if waiting and num_free >= min(max(1, int(self.num_slots * ADMIT_FRAC)), len(waiting)):
                self._prefill(waiting[:num_free], counts)
                running, waiting = running + waiting[:num_free], waiting[num_free:]
            counts.decode[len(running)] += 1
            for row in running:
                self.said[row.place][number] += 1
            said = [replace(row, left=row.left - 1, said=row.said + 1) for row in running]
            running = [row for row in said if row.left]
            for row in said:
                left[row.place] -= not row.left
            whole = [place for place, num in left.items() if not num]
            for place in whole:
                del left[place]
                self.ready.append(place)
            due -= {*whole}
        self.making = {place: [row for row in (*running, *waiting) if row.place == place] for place in left}
        self.ready.sort(key=lambda place: (self.begun[place], place))
        for place in self.ready[: self.per_step]:
            for sampled, num_tokens in self.said.pop(place).items():
                counts.tokens_by_age[number - sampled] += num_tokens
        del self.ready[: self.per_step]

    def _prefill(self, rows: Sequence[_Row], counts: StreamCounts) -> None:
        head_len = max(row.prompt + row.said for row in rows) - 1
        alone = ((row.place, index if row.said or not self.share_prefill else -1) for index, row in enumerate(rows))
        if head_len:
            counts.prefill[len({*alone}) * head_len] += 1


def carried_counts(
    lengths_2B: Sequence[Sequence[int]],
    *,
    group_size: int,
    per_step: int,
    capacity: int,
    max_lag_steps: int,
    num_slots: int,
    share_prefill: bool,
) -> StreamCounts:
    """Count as many steps as ``lengths_2B`` has (prompts, completions), after a warm-up; groups are neighbours.

    ``capacity`` groups are in the making or whole when a step begins, ``per_step`` of which it takes.
    """
    rows = list(zip(*lengths_2B, strict=True))
    groups = [rows[i : i + group_size] for i in range(0, len(rows), group_size)]
    run = _Carrying(
        per_step=per_step,
        max_lag_steps=max_lag_steps,
        num_slots=num_slots,
        share_prefill=share_prefill,
        making={},
        begun={},
        ready=[],
    )
    counts = StreamCounts()
    for step in range(WARMUP_STEPS + len(groups) // per_step):
        while len(run.making) + len(run.ready) < capacity:
            place = len(run.begun)
            run.begun[place], run.said[place] = step, Counter()
            run.making[place] = [
                _Row(place=place, prompt=prompt, left=left, said=0) for prompt, left in groups[place % len(groups)]
            ]
        run.step(step, counts if step >= WARMUP_STEPS else StreamCounts())
    return counts
