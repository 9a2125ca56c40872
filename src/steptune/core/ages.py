"""How old tokens may be, and when a run that samples ahead of its trainer has become itself.

It starts with an empty queue and fresh weights, both of which look fast. So it counts only after
max(staleness bound, longest episode in steps) + 2 updates.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.trial import Observation

EXTRA_UPDATES = 2
"""Updates beyond the oldest token's age: one for the step that met it, one for the pause before the first block."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Ages:
    """``Ages(max_staleness=2, own_lag=0)``: what the owner allows and what the algorithm has anyway, in updates."""

    max_staleness: int
    own_lag: int

    def runs_ahead(self, steps: Sequence[Observation]) -> bool:
        """Return whether any of ``steps`` shows a queue, or tokens older than the algorithm makes them."""
        return any(step.queue is not None or step.lag_max > self.own_lag for step in steps)

    def steps_owed(self, steps: Sequence[Observation]) -> int:
        """Return the steps before a run counts, given those seen so far: 0 for one that does not run ahead.

        A rollout's age in updates is the length of its episode in steps, so the oldest token seen stands for both.
        """
        if not self.runs_ahead(steps):
            return 0
        return max(self.max_staleness, max(step.lag_max for step in steps)) + EXTRA_UPDATES


def tokens_by_age(steps: Sequence[Observation]) -> Counter[int]:
    """Return the tokens that ``steps`` trained on by age in updates, as met at every update; the rest is of age 0."""
    tokens = Counter[int]()
    for step in steps:
        older = {stats.lag: stats.gap.num_tokens for stats in step.off_policy}
        tokens.update(older)
        tokens[0] += max(0, step.completion_tokens - sum(older.values()))
    return tokens


def mean_age(steps: Sequence[Observation], *, num_updates: int) -> float | None:
    """Return the mean age of the tokens that ``steps`` trained on, in updates; None where they trained on none.

    It is that at each step's first update: every later one of its ``num_updates`` makes its tokens one older. Where all
    steps have a queue it is the queue's own mean.
    """
    by_step = [(step.completion_tokens, step.queue.lag_mean) for step in steps if step.queue is not None]
    if len(by_step) == len(steps):
        total = sum(count for count, _ in by_step)
        return math.fsum(count * lag for count, lag in by_step) / total if total else None
    tokens = tokens_by_age(steps)
    total = tokens.total()
    return math.fsum(lag * count for lag, count in tokens.items()) / total - (num_updates - 1) / 2 if total else None
