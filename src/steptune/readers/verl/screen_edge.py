"""Which rows the edge of a screen or a pager cut: decided by the widths of all rows, not by one row alone.

The surprise: one row tells nothing. A row of 144 columns that ends in `timing_s/step:12` is whole in a log and cut
on a screen of 144; on the screen its neighbours end in the same column too. Steps with such a row wait here until
another width is seen, or the input is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import final

from steptune.readers.step import Dropped, StepRecord

CUSTOMARY_COLUMNS = frozenset({80, 100, 120, 132, 160, 200, 240})
"""Widths, in characters, that terminals are commonly set to: a row that ends there may be cut even if it is alone."""

_ENOUGH_ROWS = 64
"""Rows of one width, or steps that wait, after which no other width is waited for: a log's own would differ by then."""

_MIN_EQUAL_ROWS = 2
"""Different rows that end in one column from which on this is the edge of a screen."""


@final
@dataclass(kw_only=True, slots=True)
class ScreenEdge:
    """Tell it of every row, then hand it the steps: it yields them, without last values that may have lost digits."""

    _longest: int = 0
    _widths: set[int] = field(default_factory=set[int])
    _texts: set[str] = field(default_factory=set[str])
    """Of doubtful rows, as one that was printed twice is only one; no more of them than matter."""
    _doubtful: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Width of the row by line and key of its last value."""
    _held: list[StepRecord] = field(default_factory=list[StepRecord])

    def saw(self, width: int) -> None:
        """Take note of a row: no screen is narrower than its longest row."""
        self._longest = max(self._longest, width)

    def doubt(self, line: int, key: str, *, width: int, text: str) -> None:
        """Take note of a row that may end early, in the value of ``key``."""
        self._widths.add(width)
        self._doubtful[line, key] = width
        if len(self._texts) < _ENOUGH_ROWS:
            self._texts.add(text)

    def take(self, step: StepRecord) -> Iterator[StepRecord]:
        """Yield the steps that are decided."""
        self._held.append(step)
        is_decided = len(self._widths) > 1 or max(len(self._texts), len(self._held)) >= _ENOUGH_ROWS
        if is_decided or not any(self._doubts(held) for held in self._held):
            yield from self.end()

    def end(self) -> Iterator[StepRecord]:
        """Yield all steps that wait, decided by what was seen so far."""
        held, self._held = self._held, []
        for step in held:
            yield self._decided(step)

    def _doubts(self, step: StepRecord) -> list[str]:
        return [key for key, found in step.readings.items() if (found.line, key) in self._doubtful]

    def _is_edge(self, width: int) -> bool:
        if width < self._longest:
            return False
        return width in CUSTOMARY_COLUMNS or (len(self._widths) == 1 and len(self._texts) >= _MIN_EQUAL_ROWS)

    def _decided(self, step: StepRecord) -> StepRecord:
        readings, dropped = dict(step.readings), list(step.dropped)
        for key in self._doubts(step):
            width = self._doubtful.pop((readings[key].line, key))
            if self._is_edge(width):
                found = readings.pop(key)
                why = f"may have lost digits: the line ends early, at column {width}, as on a screen of that width"
                dropped.append(Dropped(key=key, text=found.text, line=found.line, why=why))
        return replace(step, readings=readings, dropped=tuple(dropped))
