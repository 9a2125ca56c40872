"""AReaL's stats tables become steps.

`Train step k/t done.` opens a step; the tables after it belong to it. A step prints several tables (one per minibatch
or worker group): what comes again in a later one is the same quantity of another minibatch, and the first counts. In a
paste of bare rows a repeated timer opens the next step.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from steptune.readers.areal.keys import END_TO_END_KEY, PREFIX, TOKENS_KEY
from steptune.readers.formats.by_step import add
from steptune.readers.formats.rows import steps_of
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.step import Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_DONE = re.compile(r"\bTrain step (?P<number>\d{1,9})/\d+ done\.")
_MARK = re.compile(r"\bTrain step \d+/\d+ done\.|│ (?:timeperf|ppo_actor)/\w|#End to end# execution")
_MASTER = re.compile(
    r"\(global step (?P<number>\d{1,9})\) finishes\. (?:Average #tokens per batch is (?P<tokens>\d{1,12})\. )?"
    r"#End to end# execution time: \*(?P<seconds>\d+(?:\.\d+)?)\*s"
)
"""The master worker of AReaL before 1.0 tells a whole step in one line."""

_KEY = re.compile(r"[A-Za-z_]\w*(?:/[\w.@-]+)+")


def is_mark(text: str) -> bool:
    """Whether only AReaL prints such a line."""
    return _MARK.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order."""
    return steps_of(_Reader(step=StepBuilder(path=path)), raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    step: StepBuilder

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the step it closes."""
        if master := _MASTER.search(line.text):
            yield from self._turn(int(master["number"]))
            add(self.step, list(_whole_step(master, line)))
            yield from self._turn(None)
            return
        if done := _DONE.search(line.text):
            yield from self._turn(int(done["number"]))
            return
        found = list(_readings(line))
        if self.step.number is None and any(r.key.startswith(PREFIX) and self.step.holds(r.key) for r in found):
            yield from self._turn(None)
        add(self.step, found)

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        if not self.step.is_empty():
            yield self.step.build()

    def _turn(self, number: int | None) -> Iterator[StepRecord]:
        if not self.step.is_empty():
            yield self.step.build()
        self.step = StepBuilder(path=self.step.path, number=number)


def _whole_step(found: re.Match[str], line: Line) -> Iterator[Reading]:
    for key, text in ((END_TO_END_KEY, found["seconds"]), (TOKENS_KEY, found["tokens"])):
        if text is not None:
            yield Reading(key=key, value=float(text), text=text, line=line.number)


def _readings(line: Line) -> Iterator[Reading]:
    for key, text in pairwise(table_cells(line.text)):
        value = parse_number(text) if _KEY.fullmatch(key) else None
        if value is not None:
            yield Reading(key=key, value=value, text=text, line=line.number)
