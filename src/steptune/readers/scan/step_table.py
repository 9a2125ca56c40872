"""A table that somebody made by hand with one row per step: `| step | timing_s/gen | timing_s/step |`.

Only columns count whose heading is a metric of the framework as it spells it: a word like `Train` or `Total` states no
unit. A table whose first column counts no steps compares runs, and is none of these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import NumberedLine
from steptune.readers.step import Reading, StepRecord
from steptune.readers.values import parse_number

_STEP_HEADING = re.compile(r"(?:global[ _])?steps?|iter(?:ation)?", re.IGNORECASE)
_STEP = re.compile(r"(?:step\s)?(\d{1,9})", re.IGNORECASE)


def read_step_table(
    lines: Iterable[NumberedLine], path: str, known_key: Callable[[str], str | None]
) -> Iterator[StepRecord]:
    """Yield the steps that clean lines tabulate; ``known_key`` returns a metric's key for a heading, else None."""
    columns: Mapping[int, str] = {}
    for number, text in lines:
        cells = table_cells(text) if "|" in text or "│" in text else []
        if len(cells) < 2:
            continue
        if _STEP_HEADING.fullmatch(cells[0]):
            named = ((index, known_key(cell)) for index, cell in enumerate(cells[1:], start=1))
            columns = {index: key for index, key in named if key is not None}
        elif (step := _STEP.fullmatch(cells[0])) and columns:
            readings = {
                key: Reading(key=key, value=value, text=cells[index], line=number)
                for index, key in columns.items()
                if index < len(cells) and (value := _value(cells[index])) is not None
            }
            if readings:
                yield StepRecord(number=int(step[1]), path=path, readings=readings)
        else:
            columns = {}


def _value(cell: str) -> float | None:
    """The number of a cell, a duration in seconds; None for `120 -> 90` and the like."""
    seconds = parse_duration_s(cell)
    return parse_number(cell.replace(",", "")) if seconds is None else seconds
