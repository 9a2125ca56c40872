"""A table of phases that somebody made by hand becomes a step: `| update_actor | 5h26m | 60.4% |`.

Only rows count whose first cell names a timer of the framework, and only cells that say they are seconds: by their
own unit, or by the heading of their column. A table without a row for the whole step says nothing of shares.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import NumberedLine
from steptune.readers.step import Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_SECONDS_HEADING = re.compile(r"\((?:s|sec|secs|seconds)\)|\bseconds?\b|\btiming_s\b|^s$", re.IGNORECASE)
_REMARK = re.compile(r"\s*[(\[][^()\[\]]{0,80}[)\]]\s*$")


def read_phase_table(
    lines: Iterable[NumberedLine], path: str, timer_key: Callable[[str], str | None]
) -> StepRecord | None:
    """Return the step that clean lines tabulate; None without a row that ``timer_key`` knows.

    ``timer_key`` returns a timer's key for the name in a row's first cell. Of a repeated name the first row counts.
    """
    step = StepBuilder(path=path)
    heading: Sequence[str] = ()
    for number, text in lines:
        cells = table_cells(text) if "|" in text or "│" in text else []
        if len(cells) < 2:
            continue
        key = timer_key(_name(cells[0]))
        if key is None:
            heading = cells
        elif not step.holds(key) and (reading := _seconds(key, cells, heading, number)):
            step.readings[key] = reading
    return None if step.is_empty() else step.build()


def row_names(lines: Iterable[NumberedLine]) -> Iterator[str]:
    """Yield what the rows of all tables among clean lines are called."""
    return (_name(cells[0]) for _, text in lines if len(cells := table_cells(text)) > 1)


def _name(cell: str) -> str:
    """A name without the remark in brackets after it: `gen (vLLM, TP 2)`."""
    return _REMARK.sub("", cell).strip(" `*")


def _seconds(key: str, cells: Sequence[str], heading: Sequence[str], line: int) -> Reading | None:
    for index, cell in enumerate(cells[1:], start=1):
        value = parse_duration_s(cell)
        if value is None and index < len(heading) and _SECONDS_HEADING.search(heading[index]):
            value = parse_number(cell.replace(",", ""))
        if value is not None:
            return Reading(key=key, value=value, text=cell, line=line)
    return None
