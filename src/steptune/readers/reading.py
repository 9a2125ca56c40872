"""What a reader hands back, and what each framework brings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.paste import Note
from steptune.core.profile import Profile
from steptune.core.records import Record
from steptune.readers.facts import JobFacts
from steptune.readers.step import StepRecord


class LogReading(Record):
    """A profile and what to know about it."""

    profile: Profile
    notes: tuple[Note, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FrameworkReader:
    """One row of the table of frameworks."""

    is_mark: Callable[[str], bool]
    """Whether one clean line could only have been printed by this framework."""
    read_steps: Callable[[Iterable[str], str], Iterator[StepRecord]]
    """Raw lines and their path become steps, one at a time."""
    to_reading: Callable[[Sequence[StepRecord], JobFacts], LogReading | None]
    """Steps and job facts become a profile; None when no step has a step time."""
    step_mark: str
    """The line a log needs at least once, for error messages."""
