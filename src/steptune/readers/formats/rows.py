"""Rows of a log go through a reader that keeps what is open between them; written once for all frameworks."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from steptune.readers.lines import Line, NumberedLine, clean_lines
from steptune.readers.step import StepRecord


class RowReader(Protocol):
    """Takes clean rows in order and yields the steps that they close."""

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the steps it closes."""
        ...

    def end(self) -> Iterator[StepRecord]:
        """The input is over: yield the steps still open."""
        ...


def steps_of(reader: RowReader, raw_lines: Iterable[NumberedLine]) -> Iterator[StepRecord]:
    """Yield the steps of all rows in order."""
    for line in clean_lines(raw_lines):
        yield from reader.feed(line)
    yield from reader.end()
