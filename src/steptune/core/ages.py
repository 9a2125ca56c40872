"""How old tokens may be, and when a run that samples ahead of its trainer has become itself.

It starts with an empty queue and fresh weights, both of which look fast. So it counts only after
max(staleness bound, longest episode in steps) + 2 updates.
"""

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
