"""Values that are there but cannot be true, and what a reader must know to not misread the rest.

Frameworks print placeholders (-1, 0.0) and quotients of unknown quantities (an MFU of 1.018 on a device whose peak
is not in the table, verl #1208). Such a value is flagged here; an impossible *timer* never reaches the profile.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from steptune.core.paste import Note
from steptune.core.profile import Origin, Profile, unattributed_frac
from steptune.readers.average import WARMUP_STEPS, KeptSteps
from steptune.readers.step import Dropped, Reading, StepRecord
from steptune.readers.timers import Timer

OVERLAP_FRAC = 0.01
"""Timers may exceed the step by this part of it before they are said to overlap: rounding to two decimals."""


def without_impossible_timers(record: StepRecord, *, step_key: str, timers: Sequence[Timer]) -> StepRecord:
    """Move timers that are negative, not finite or longer than their step to `dropped`.

    A timer that is `often_outside` and does not fit in beside the others ran after the step: it is forgotten.
    """
    step_s = record.value(step_key)
    if step_s is None or not math.isfinite(step_s):
        return record
    readings = dict(record.readings)
    dropped = list(record.dropped)
    for timer in timers:
        reading = readings.get(timer.key)
        why = None if reading is None else _why_impossible(reading.value, step_s)
        if reading is not None and why:
            del readings[timer.key]
            if not (timer.often_outside and reading.value > step_s):
                dropped.append(Dropped(key=timer.key, text=reading.text, line=reading.line, why=why))
    return replace(record, readings=_without_outsiders(readings, step_s, timers), dropped=tuple(dropped))


def _why_impossible(value: float, step_s: float) -> str | None:
    if not math.isfinite(value):
        return "is not a number"
    if value < 0:
        return "is negative, a placeholder for `not measured`"
    return f"is longer than its step of {step_s:g} s" if value > step_s else None


def _without_outsiders(readings: Mapping[str, Reading], step_s: float, timers: Sequence[Timer]) -> dict[str, Reading]:
    """Forget timers that ran after the step, recognised by the lack of room for them inside it."""
    inside = [t for t in timers if t.is_top_level and t.key in readings]
    room_s = step_s - sum(readings[t.key].value for t in inside if not t.often_outside)
    kept = dict(readings)
    for key in (t.key for t in inside if t.often_outside):
        if kept[key].value > room_s:
            del kept[key]
        else:
            room_s -= kept[key].value
    return kept


def notes_on(kept: KeptSteps, profile: Profile, *, timer_prefix: str, known: Sequence[str]) -> tuple[Note, ...]:
    """Return everything a reader of ``profile`` must know; ``known`` are timers that need no word."""
    notes = [*_drop_notes(kept), *_suspicion_notes(kept), *_rounding_note(kept)]
    unread = sorted({k for s in kept.steps for k in s.readings if timer_prefix and _is_unread(k, timer_prefix, known)})
    if unread:
        notes.append(Note(text=f"timers not read, their time stays unattributed: {', '.join(unread)}"))
    if unattributed_frac(profile) < -OVERLAP_FRAC:
        notes.append(Note(text="timers add up to more than the step: some overlap, shares are upper bounds"))
    if all(step.number is not None and step.number <= WARMUP_STEPS for step in kept.steps):
        notes.append(Note(text=f"only steps up to {WARMUP_STEPS} are there: they still pay for warm-up"))
    if len(kept.steps) == 1:
        notes.append(Note(text="one step only: no interval, and no claim can be made against it"))
    return tuple(notes)


def _is_unread(key: str, prefix: str, known: Sequence[str]) -> bool:
    return key.startswith(prefix) and key not in known and "/" not in key.removeprefix(prefix)


def _suspicion(reading: Reading) -> str | None:
    key, value = reading.key, reading.value
    if math.isnan(value):
        return "is NaN"
    if "mfu" in key and value > 1:
        return "is above 1: the device's peak is unknown to the framework; not a measure of anything"
    if "mfu" in key and value == 0:
        return "is 0: not computed, rather than no work"
    if value == -1 and ("timing" in key or "num_" in key):
        return "is -1: not measured"
    return None


def _suspicion_notes(kept: KeptSteps) -> list[Note]:
    """One note for a key and a reason, at its first place."""
    places: dict[tuple[str, str], list[tuple[StepRecord, Reading]]] = {}
    for step in kept.steps:
        for reading in step.readings.values():
            if reason := _suspicion(reading):
                places.setdefault((reading.key, reason), []).append((step, reading))
    return [
        Note(
            text=f"`{key}` {reason}, got {found[0][1].text}{_times(len(found))}",
            origin=_origin(found[0][0], found[0][1]),
        )
        for (key, reason), found in places.items()
    ]


def _drop_notes(kept: KeptSteps) -> list[Note]:
    """One note for a key that was left out, at its first place."""
    places: dict[str, list[tuple[StepRecord, Dropped]]] = {}
    for step in kept.steps:
        for drop in step.dropped:
            places.setdefault(drop.key, []).append((step, drop))
    return [
        Note(
            text=f"`{key}` was left out: `{found[0][1].text}` {found[0][1].why}{_times(len(found))}",
            origin=_origin(found[0][0], found[0][1]),
        )
        for key, found in places.items()
    ]


def _times(count: int) -> str:
    return "" if count == 1 else f" (first of {count} steps)"


def _origin(step: StepRecord, at: Reading | Dropped) -> Origin:
    return Origin(path=step.path, line=at.line, key=at.key)


def _rounding_note(kept: KeptSteps) -> list[Note]:
    rounded = [r.key for s in kept.steps for r in s.readings.values() if r.text.lstrip("-") == "0.000"]
    if not rounded:
        return []
    return [Note(text=f"printed with three decimals: 0.000 means below 0.0005, not zero ({len(set(rounded))} keys)")]
