"""Spans and counters of one process, booked per role, written to `events.jsonl`.

A role is always in exactly one top-level span or in none (then it is unattributed). Two roles that share
a process are booked from the same clock readings: while the rollout is busy the trainer of a synchronous
job waits, and both facts are recorded.

Clock: `time.perf_counter`, which on Linux is CLOCK_MONOTONIC and comparable between processes.
"""

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, final

from steptune.core.phase import Role, SpanKind, is_child

Clock = Callable[[], float]
"""Seconds on a monotonic clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One stretch of time: ``Span(role=Role.ROLLOUT, phase="rollout/decode", start_s=3.1, end_s=3.4, ...)``."""

    role: Role
    phase: str
    kind: SpanKind
    start_s: float
    end_s: float
    step: int
    rank: int | None = None
    """Which of the role's processes; None where it has one."""

    @property
    def seconds(self) -> float:
        """Length of the span."""
        return self.end_s - self.start_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """A value at a moment: ``Count(name="rows_running", value=48, at_s=3.2, step=7)``."""

    name: str
    value: float
    at_s: float
    step: int
    rank: int | None = None


@final
@dataclass(kw_only=True, slots=True)
class Recorder:
    """Collects spans and counts in memory; `take` hands the spans over and appends both to the file."""

    clock: Clock = time.perf_counter
    roles: tuple[Role, ...] = ()
    """Roles that share this process: while one of them works, the others are booked as waiting."""
    file: IO[str] | None = None
    step: int = 0
    rank: int | None = None
    """Goes into every span and count of this process."""
    spans: list[Span] = field(default_factory=list[Span])
    counts: list[Count] = field(default_factory=list[Count])

    @contextmanager
    def span(self, role: Role, phase: str, kind: SpanKind = SpanKind.BUSY) -> Generator[None]:
        """Book the body's duration on ``role``, and as waiting on the process's other roles.

        Child phases and waits are booked on ``role`` alone: their time is inside somebody's top-level span.
        """
        start = self.clock()
        try:
            yield
        finally:
            end = self.clock()
            self.add(role, phase, kind, start, end)
            if kind is SpanKind.BUSY and not is_child(phase):
                for other in self.roles:
                    if other is not role:
                        self.add(other, phase, SpanKind.EXPOSED_WAIT, start, end)

    def add(self, role: Role, phase: str, kind: SpanKind, start_s: float, end_s: float) -> None:
        """Book a stretch whose ends are already known."""
        self.spans.append(
            Span(role=role, phase=phase, kind=kind, start_s=start_s, end_s=end_s, step=self.step, rank=self.rank)
        )

    def count(self, name: str, value: float) -> None:
        """Book what a quantity is from now on."""
        self.counts.append(Count(name=name, value=value, at_s=self.clock(), step=self.step, rank=self.rank))

    def forget(self) -> None:
        """Drop what was collected and not taken."""
        self.spans.clear()
        self.counts.clear()

    def take(self) -> list[Span]:
        """Return the collected spans, write them and the counts to the file and start afresh."""
        taken, self.spans = self.spans, []
        counts, self.counts = self.counts, []
        if self.file is not None:
            self.file.writelines(span_line(span) + "\n" for span in taken)
            self.file.writelines(count_line(count) + "\n" for count in counts)
            self.file.flush()
        return taken

    def close(self) -> None:
        """Close the file, if there is one."""
        if self.file is not None:
            self.file.close()


def span_line(span: Span) -> str:
    """Return the span as one line of `events.jsonl`."""
    return json.dumps(
        {
            "event": "span",
            "role": span.role,
            "phase": span.phase,
            "kind": span.kind,
            "start_s": round(span.start_s, 6),
            "end_s": round(span.end_s, 6),
            "step": span.step,
            **_rank(span.rank),
        }
    )


def count_line(count: Count) -> str:
    """Return the count as one line of `events.jsonl`."""
    return json.dumps(
        {
            "event": "count",
            "name": count.name,
            "value": round(count.value, 6),
            "at_s": round(count.at_s, 6),
            "step": count.step,
            **_rank(count.rank),
        }
    )


def _rank(rank: int | None) -> dict[str, int]:
    return {} if rank is None else {"rank": rank}


def open_events(path: Path) -> IO[str]:
    """Open an events file for appending, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8")
