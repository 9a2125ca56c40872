"""Of a long log only the first steps and the most recent ones are kept."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from steptune.readers.step import StepRecord

FIRST_STEPS = 4
"""Steps kept from the beginning: what a mismatch or a memory use started from."""

RECENT_STEPS = 512
"""Steps kept from the end: more than any mean, trend or interval here needs; about 10 MB."""


@final
@dataclass(kw_only=True, slots=True)
class StepKeeper:
    """Takes all steps, holds few."""

    num_seen: int = 0
    _first: list[StepRecord] = field(default_factory=list[StepRecord])
    _recent: deque[StepRecord] = field(default_factory=lambda: deque[StepRecord](maxlen=RECENT_STEPS))

    def take(self, records: Iterable[StepRecord]) -> None:
        """Run through ``records``."""
        for record in records:
            self.num_seen += 1
            (self._first if len(self._first) < FIRST_STEPS else self._recent).append(record)

    def kept(self) -> list[StepRecord]:
        """Return what is held, in order."""
        return [*self._first, *self._recent]

    @property
    def num_left_out(self) -> int:
        """Steps that were seen and let go."""
        return self.num_seen - len(self._first) - len(self._recent)
