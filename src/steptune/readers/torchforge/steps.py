"""torchforge's blocks become steps.

Keys are sorted, so a block that breaks off lacks the end of the alphabet: `waiting_for_buffer` is the first timer to
go. A block is whole when its closing rule was seen.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from steptune.readers.formats.by_step import add
from steptune.readers.lines import Line, NumberedLine, clean_lines
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_HEAD = re.compile(r"=== \[(?P<process>[^\]]+)\] - METRICS STEP (?P<number>\d{1,9}) ===")
_PAIR = re.compile(r"^\s*(?P<key>[A-Za-z_]\w*(?:/[\w.-]+)+): (?P<value>\S+)\s*$")
_RULE = re.compile(r"^={20,}\s*$")


def is_mark(text: str) -> bool:
    """Whether only torchforge prints such a line."""
    return _HEAD.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order; those whose block breaks off are cut."""
    reader = _Reader(path=path)
    for line in clean_lines(raw_lines):
        yield from reader.feed(line)
    yield from reader.close(is_cut=True)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    path: str
    step: StepBuilder | None = None

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the step it closes."""
        if head := _HEAD.search(line.text):
            yield from self.close(is_cut=True)
            self.step = StepBuilder(path=self.path, number=int(head["number"]))
        elif self.step is not None and _RULE.match(line.text):
            yield from self.close(is_cut=False)
        elif self.step is not None and (pair := _PAIR.match(line.text)):
            add(self.step, list(_reading(pair["key"], pair["value"], line)))

    def close(self, *, is_cut: bool) -> Iterator[StepRecord]:
        """Yield the open step."""
        step, self.step = self.step, None
        if step is not None and not step.is_empty():
            yield step.build(is_cut=is_cut)


def _reading(key: str, text: str, line: Line) -> Iterator[Reading | Dropped]:
    value = parse_number(text)
    if line.may_be_cut:
        yield Dropped(key=key, text=text, line=line.number, why="may have lost digits: the log ends here")
    elif value is not None:
        yield Reading(key=key, value=value, text=text, line=line.number)
