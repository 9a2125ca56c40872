"""Metrics in any shape in which people quote them: `timing_s/gen=74.0`, `"timing/step": 60`, `wandb: perf/mfu 0.3`.

For texts in which a framework's own reader finds no step. Only keys that the framework is known to log count, and only
values that stand alone: `74 -> 60`, `70-80`, `74 ms`, `1,234` or two columns compare or state something else. The
surprise: a key that comes twice without a step number between is two runs as often as two steps, so then nothing is
read.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import MIN_WRAP_COLUMNS, NumberedLine
from steptune.readers.step import Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_KEY = r"[A-Za-z_][\w.@-]{0,60}(?:/[\w.@-]{1,60}){0,5}"
_VALUE = r"[-+]?[\d.]{1,30}(?:[eE][-+]?\d{1,3})?|[-+]?nan|[-+]?inf"
_PAIR = re.compile(
    rf"(?<![\w/.-])(?P<quote>[`'\"]?)(?P<key>{_KEY})(?P=quote)\s?[:=]\s{{0,4}}['\"]?(?P<value>{_VALUE})['\"]?"
    rf"(?:\s?s(?:ec|econds)?)?(?=\s*(?:,(?!\d)|[;}}\]`]|$)|\s+[`'\"]?{_KEY}[`'\"]?\s?[:=])",
    re.IGNORECASE,
)
_SUMMARY = re.compile(rf"\s*wandb:\s+(?P<key>{_KEY})\s+(?P<value>{_VALUE})\s*")
"""A row of the run summary that W&B prints at the end."""

_STEP_WORD = re.compile(r"\b(?:global[ _])?step[ :#]{1,3}(\d{1,9})(?:/\d{1,9})?(?=\W)", re.IGNORECASE)
"""The number of a step before the metrics of a line: `INFO | step 12 | timing_s/gen=74.0`."""

_STEPS = ("step", "global_step", "training/global_step", "train/global_step", "trainer/global_step")

_WITH_NUMBER_LAST = 2
"""Steps where metrics without a number are followed by a number without metrics: it is theirs."""


def read_loose_pairs(
    lines: Iterable[NumberedLine], path: str, known_key: Callable[[str], str | None]
) -> list[StepRecord]:
    """Return the steps that clean lines quote; none where it is unclear what belongs to one step.

    ``known_key`` returns the key that a reader uses for a spelled one; None for a key of something else.
    """
    steps: list[StepBuilder] = [StepBuilder(path=path)]
    for number, text in lines:
        for spelled, value_text in _pairs(text):
            value = parse_number(value_text)
            key = None if value is None else known_key(spelled)
            if value is not None and spelled in _STEPS and value.is_integer() and steps[-1].number != int(value):
                if not steps[-1].is_empty():
                    steps.append(StepBuilder(path=path))
                steps[-1].number = int(value)
            elif value is not None and key is not None:
                if steps[-1].holds(key):
                    return []
                steps[-1].readings[key] = Reading(key=key, value=value, text=value_text, line=number)
    if steps[-1].is_empty() and len(steps) == _WITH_NUMBER_LAST and steps[0].number is None:
        steps[0].number = steps[-1].number
    return [step.build() for step in steps if not step.is_empty()]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values of one line; a value at the end of a full row may go on in the next one and is left out."""
    if summary := _SUMMARY.fullmatch(text):
        yield summary["key"], summary["value"]
        return
    cells = text.split("\t") if "\t" in text else table_cells(text) if "|" in text or "│" in text else []
    if len(cells) == 2:
        yield cells[0].strip(" `*"), cells[1].strip(" `*")
    if cells:
        return
    pairs = list(_PAIR.finditer(text))
    named = _STEP_WORD.search(text, 0, pairs[0].start()) if pairs else None
    if named is not None:
        yield _STEPS[0], named[1]
    for pair in pairs:
        if pair.end() < len(text.rstrip()) or len(text) < MIN_WRAP_COLUMNS:
            yield pair["key"], pair["value"]
