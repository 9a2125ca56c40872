"""Phases of steps whose whole time the input does not say: a few lines of one step, or no timer for the whole.

The surprise: their sum is no step time. What is not pasted or not timed may be the longest part of the step, so these
seconds get no share, no ceiling and no bottleneck.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from steptune.core.paste import Note
from steptune.core.profile import Origin, PhaseTime
from steptune.readers.average import MAX_STEP_S, mean_estimate
from steptune.readers.reading import LogReading
from steptune.readers.step import Dropped, Reading, StepRecord
from steptune.readers.timers import Timer


def untimed_reading(
    records: Sequence[StepRecord], timers: Iterable[Timer], *, notes: Sequence[Note] = ()
) -> LogReading | None:
    """Return the phases and what was left out of the steps; None when there is neither."""
    phases = untimed_phases(records, timers)
    said = (*notes, *notes_on_dropped(records))
    return LogReading(profile=None, phases=phases, notes=said) if phases or said else None


def untimed_phases(records: Sequence[StepRecord], timers: Iterable[Timer]) -> tuple[PhaseTime, ...]:
    """Return the mean seconds of every timer over the steps that have it, the longest first."""
    found = [phase for timer in timers if (phase := _phase(records, timer)) is not None]
    return tuple(sorted(found, key=lambda phase: -phase.seconds.value))


def outside_phases(
    before: Sequence[StepRecord], after: Sequence[StepRecord], timers: Iterable[Timer]
) -> tuple[PhaseTime, ...]:
    """Return what ran after its step: what `without_impossible_timers` forgot of ``before``, which is ``after`` now."""
    forgotten = [
        replace(
            old, readings={k: r for k, r in old.readings.items() if k not in new.readings and not new.has_broken(k)}
        )
        for old, new in zip(before, after, strict=True)
    ]
    return untimed_phases(forgotten, [timer for timer in timers if timer.often_outside])


def notes_on_dropped(records: Sequence[StepRecord]) -> list[Note]:
    """Return one note for a key that was left out of a step, at its first place."""
    places: dict[str, list[tuple[StepRecord, Dropped]]] = {}
    for record in records:
        for drop in record.dropped:
            places.setdefault(drop.key, []).append((record, drop))
    return [_note(found) for found in places.values()]


def _phase(records: Sequence[StepRecord], timer: Timer) -> PhaseTime | None:
    found = [(r, reading) for r in records if _is_time(reading := r.readings.get(timer.key))]
    read = [(record, reading) for record, reading in found if reading is not None]
    if not read:
        return None
    record, first = read[0]
    return PhaseTime(
        role=timer.worker,
        phase=timer.phase,
        kind=timer.kind,
        seconds=mean_estimate([reading.value for _, reading in read], unit="s"),
        origin=Origin(path=record.path, line=first.line, key=timer.key),
    )


def _is_time(reading: Reading | None) -> bool:
    return reading is not None and 0 <= reading.value <= MAX_STEP_S


def _note(found: Sequence[tuple[StepRecord, Dropped]]) -> Note:
    record, drop = found[0]
    times = "" if len(found) == 1 else f" (first of {len(found)} steps)"
    origin = Origin(path=record.path, line=drop.line, key=drop.key)
    return Note(text=f"`{drop.key}` was left out: `{drop.text}` {drop.why}{times}", origin=origin)
