"""What a reader hands back, and what each framework brings: the row of the table of frameworks."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.paste import Note
from steptune.core.profile import PhaseTime, Profile
from steptune.core.records import Record
from steptune.readers.facts import JobFacts
from steptune.readers.lines import NumberedLine
from steptune.readers.step import Dropped, Reading, StepRecord


class LogReading(Record):
    """A profile and what to know about it; without a step time the phases that are timed all the same."""

    profile: Profile | None
    phases: tuple[PhaseTime, ...] = ()
    """Those whose seconds are in no step time."""
    notes: tuple[Note, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """What a metric means: ``Gauge(name="mfu", scale=0.01)`` for a log that prints percent."""

    name: str
    """Canonical name of `core.paste.Series`."""
    scale: float = 1.0
    """Canonical unit = printed number x scale."""
    is_derived: bool = False
    """Whether a reader computed it, as a step time from the rate of a progress bar."""


def _same_key(key: str) -> str:
    return key


def _nothing(found: Iterable[Reading | Dropped]) -> list[Reading]:
    return []


def _no_key(name: str) -> str | None:
    return None


def _is_never(key: str) -> bool:
    return False


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FrameworkReader:
    """One row of the table of frameworks: everything the readers know of one of them.

    Example: `steptune.readers.nemo_rl.row.ROW`. How to write one: docs/guides/new-framework.md.
    """

    name: str
    """As `Profile.framework` and `Paste.framework` carry it."""
    wanted: tuple[bytes, ...]
    """UTF-8 literals; every raw line that `read_steps` or `is_mark` needs holds one of them. All other lines but the
    few after each of these are never looked at, which is what makes big logs fast: choose rare ones."""
    wanted_at_edges: tuple[bytes, ...] = ()
    """As `wanted`, but only within `scan.chunks.EDGE_BYTES` of the file's beginning and end: for what people paste,
    not for what a long log holds."""
    is_mark: Callable[[str], bool]
    """Whether one clean line could only have been printed by this framework."""
    owns_key: Callable[[str], bool]
    """Whether a metric key, as a metrics file spells it, is one that only this framework logs."""
    owns_setting: Callable[[str], bool]
    """Whether a dotted configuration key is one that only this framework has."""
    shares_key: Callable[[str], bool] = field(default=_is_never)
    """Whether a metric or configuration key is this framework's and others' too: it counts where no own one does."""
    read_steps: Callable[[Iterable[NumberedLine], str], Iterator[StepRecord]]
    """Numbered raw lines (gaps where lines were skipped) and their path become steps, one at a time."""
    to_reading: Callable[[Sequence[StepRecord], JobFacts], LogReading | None]
    """Steps and job facts become a profile, or phases alone when no step has a step time; None without either."""
    step_mark: str
    """The line a log needs at least once to give a profile, for messages."""
    series: Mapping[str, Gauge]
    """Keys of `read_steps` and their canonical names; of two keys with one name the first one present counts."""
    normal_key: Callable[[str], str] = field(default=_same_key)
    """The key of `read_steps` for a key of a metrics file (JSONL, W&B, TensorBoard), where they differ."""
    derived: Callable[[Iterable[Reading | Dropped]], list[Reading]] = field(default=_nothing)
    """What follows from a record of a metrics file; `read_steps` adds it to those of a log itself."""
    table_key: Callable[[str], str | None] = field(default=_no_key)
    """The timer that a hand-made table of phases means by a name, for logs without timing; None for other names."""
    version: re.Pattern[str] | None = None
    """Finds the framework's version in a clean line, in group 1."""
    trainer: re.Pattern[str] | None = None
    """Finds the name of a trainer in a raw line, in its first filled group, where that tells the schedule."""
    traces: str = ""
    """Regular expression of what a traceback or a list of processes calls it by: modules of its own source tree, Ray
    actors, scripts. It names the framework only of a file that no metric tells, so it may match what forks share."""
    trace_needles: tuple[bytes, ...] = ()
    """One of them is in every line that `traces` is looked for in."""
    fact_needles: tuple[bytes, ...] = ()
    """Literals of lines that `version` or `trainer` needs, beside `wanted`; looked for at the file's edges."""

    def known_key(self, spelled: str) -> str | None:
        """Return the key of `read_steps` for one quoted anywhere; None without a group or if it is never logged."""
        key = self.normal_key(spelled)
        return key if "/" in spelled and (self.owns_key(spelled) or key in self.series) else None

    def step_keys(self) -> tuple[str, ...]:
        """Return the keys that hold the seconds of a step."""
        return tuple(key for key, gauge in self.series.items() if gauge.name == "step_time")
