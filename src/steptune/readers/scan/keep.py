"""Of a long log only the first steps and the most recent ones are kept."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import merge
from typing import final

from steptune.readers.scan.same_run import RunWatch
from steptune.readers.step import StepRecord

FIRST_STEPS = 4
"""Steps kept from the beginning: what a mismatch or a memory use started from."""

RECENT_STEPS = 512
"""Steps kept from the end: more than any mean, trend or interval here needs; about 10 MB."""


_THIN = 3
"""Readings up to which a step is one that only a bar tells of: they have room of their own, or the hundred bars between
two records of metrics would push these out."""

_Numbered = tuple[int, StepRecord]


@final
@dataclass(kw_only=True, slots=True)
class StepKeeper:
    """Takes all steps, holds few."""

    num_seen: int = 0
    watch: RunWatch = field(default_factory=RunWatch)
    """Sees every step too, kept or not, to tell which files are of one run."""
    _first: list[StepRecord] = field(default_factory=list[StepRecord])
    _recent: deque[_Numbered] = field(default_factory=lambda: deque[_Numbered](maxlen=RECENT_STEPS))
    _thin: deque[_Numbered] = field(default_factory=lambda: deque[_Numbered](maxlen=RECENT_STEPS))

    def take(self, records: Iterable[StepRecord]) -> None:
        """Run through ``records``."""
        for record in records:
            self.num_seen += 1
            self.watch.see(record)
            if len(self._first) < FIRST_STEPS:
                self._first.append(record)
            else:
                (self._thin if len(record.readings) <= _THIN else self._recent).append((self.num_seen, record))

    def kept(self) -> list[StepRecord]:
        """Return what is held, in order."""
        both = merge(self._recent, self._thin, key=lambda numbered: numbered[0])
        return [*self._first, *(record for _, record in both)]

    @property
    def num_left_out(self) -> int:
        """Steps that were seen and let go."""
        return self.num_seen - len(self._first) - len(self._recent) - len(self._thin)
