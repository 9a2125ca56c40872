"""A run's spans and counts as a Chrome trace, which ui.perfetto.dev and chrome://tracing open: pure.

One process per events file, one track per role in it, one counter per quantity. A child phase lies on its parent's
track, inside it. Clocks of all processes are one (`engine.events`), so their tracks line up.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format), the
events ``X`` (complete), ``C`` (counter) and ``M`` (names), times in microseconds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

TraceEvent = dict[str, Any]
"""One event of the format."""

EVENT: TypeAdapter[TraceEvent] = TypeAdapter(TraceEvent)

MICROSECONDS = 1e6
"""Per second."""

WAITING = "waits for "
"""Before the name of a wait, so that it is never read as work."""


def trace_of(lines_of: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the trace of a run; ``lines_of`` holds the lines of each process's events file by the process's name.

    Times begin at the run's first event. A line that cannot be read (a killed run's last) is counted in
    ``otherData``, not guessed at.
    """
    read = {name: [_read(line) for line in lines if line.strip()] for name, lines in lines_of.items()}
    good = {name: [event for event in events if event is not None] for name, events in read.items()}
    begin_s = min((_start_s(event) for events in good.values() for event in events), default=0.0)
    events: list[TraceEvent] = []
    for pid, (name, found) in enumerate(good.items(), start=1):
        events += _process(pid, name, found, begin_s)
    num_bad = sum(event is None for found in read.values() for event in found)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"unreadable_lines": num_bad}}


def _process(pid: int, name: str, found: Sequence[TraceEvent], begin_s: float) -> list[TraceEvent]:
    roles = sorted({event["role"] for event in found if event["event"] == "span"})
    events = [_name("process_name", pid, 0, name)]
    events += [_name("thread_name", pid, tid, role) for tid, role in enumerate(roles, start=1)]
    for event in found:
        if event["event"] == "span":
            events.append(_span(event, pid, 1 + roles.index(event["role"]), begin_s))
        else:
            events.append(_count(event, pid, begin_s))
    return events


def _name(kind: str, pid: int, tid: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _span(event: TraceEvent, pid: int, tid: int, begin_s: float) -> TraceEvent:
    is_wait = event["kind"] != "busy"
    return {
        "ph": "X",
        "name": f"{WAITING}{event['phase']}" if is_wait else event["phase"],
        "cat": event["kind"],
        "pid": pid,
        "tid": tid,
        "ts": round((event["start_s"] - begin_s) * MICROSECONDS, 3),
        "dur": round((event["end_s"] - event["start_s"]) * MICROSECONDS, 3),
        "args": {"step": event["step"]},
    }


def _count(event: TraceEvent, pid: int, begin_s: float) -> TraceEvent:
    ts = round((event["at_s"] - begin_s) * MICROSECONDS, 3)
    return {"ph": "C", "name": event["name"], "pid": pid, "tid": 0, "ts": ts, "args": {"value": event["value"]}}


def _start_s(event: TraceEvent) -> float:
    return event["start_s"] if event["event"] == "span" else event["at_s"]


FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "span": {"role": (str,), "phase": (str,), "kind": (str,), "start_s": (float, int), "end_s": (float, int)},
    "count": {"name": (str,), "value": (float, int), "at_s": (float, int)},
}
"""What must be there, and of which type, besides ``step``."""


def _read(line: str) -> TraceEvent | None:
    """Return the event of a line, or None where it is not one of ours, whole and finite."""
    try:
        event: TraceEvent = EVENT.validate_json(line)
    except ValidationError:
        return None
    fields = FIELDS.get(str(event.get("event")))
    if fields is None or not all(isinstance(event.get(name), kinds) for name, kinds in fields.items()):
        return None
    numbers = [value for value in event.values() if isinstance(value, float)]
    is_ordered = event.get("start_s", 0.0) <= event.get("end_s", 0.0)
    return event if isinstance(event.get("step"), int) and all(map(math.isfinite, numbers)) and is_ordered else None
