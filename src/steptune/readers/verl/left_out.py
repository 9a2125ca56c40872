"""Notes on values that were left out of steps without a step time.

The surprise: those steps are no part of the average, so the notes on what is averaged do not tell of them.
"""

from collections.abc import Sequence

from steptune.core.paste import Note
from steptune.core.profile import Origin
from steptune.readers.step import Dropped, StepRecord
from steptune.readers.verl.timers import STEP_KEY


def notes_on_untimed(records: Sequence[StepRecord]) -> list[Note]:
    """Return one note for a key that was left out of a step without time, at its first place."""
    places: dict[str, list[tuple[StepRecord, Dropped]]] = {}
    for record in records:
        for drop in record.dropped if record.value(STEP_KEY) is None else ():
            places.setdefault(drop.key, []).append((record, drop))
    return [_note(found) for found in places.values()]


def _note(found: Sequence[tuple[StepRecord, Dropped]]) -> Note:
    record, drop = found[0]
    times = "" if len(found) == 1 else f" (first of {len(found)} steps)"
    origin = Origin(path=record.path, line=drop.line, key=drop.key)
    return Note(text=f"`{drop.key}` was left out: `{drop.text}` {drop.why}{times}", origin=origin)
