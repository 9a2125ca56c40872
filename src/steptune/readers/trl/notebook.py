"""The table that a notebook shows of a Hugging Face trainer, as it is copied: cells between tabs or pipes.

Unsloth writes its metrics with spaces around the slash. The surprise: every measured cell has six decimals, so a bare
`0` is a metric that was not computed, as an importance ratio without vLLM, and no value.
"""

import re
from collections.abc import Iterator, Sequence

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.lines import Line
from steptune.readers.step import Reading
from steptune.readers.trl.keys import BAR_KEY
from steptune.readers.values import parse_number

HEADER = re.compile(r"^\W{0,8}Step\s*[\t|]\s*Training Loss\s*[\t|]")
_PROGRESS = re.compile(r"\[\s*(?P<done>\d{1,9})/\d+ (?P<elapsed>[\d:]+)(?: < [\d:]+, [\d.]+ it/s)?, Epoch ")
_NAMES = {"Training Loss": "loss", "Validation Loss": "eval_loss"}
_NOT_COMPUTED = "0"
_RULE = re.compile(r"[\s|:-]+")
_MIN_CELLS = 3
"""Cells of a cut row from which on it is one: step, loss and a part of something."""


def read_header(text: str) -> list[str]:
    """Return the columns' keys in the console's spelling; empty for a line that is no header."""
    return [_NAMES.get(cell, cell.replace(" / ", "/")) for cell in _cells(text)] if HEADER.match(text) else []


def read_row(columns: Sequence[str], line: Line, *, may_be_short: bool = False) -> tuple[int, list[Reading]] | None:
    """Return the step's number and its metrics; None for a line that is no row under ``columns``.

    A row with too few cells is cut, and with it the last of them; only a row of the same table may be.
    """
    cells = _cells(line.text)
    is_short = may_be_short and _MIN_CELLS <= len(cells) < len(columns)
    if not (is_short or len(cells) == len(columns)) or not re.fullmatch(r"\d{1,9}", cells[0]):
        return None
    end = len(cells) - 1 if line.may_be_cut or is_short else len(cells)
    return int(cells[0]), list(_readings(columns[1:end], cells[1:end], line))


def is_rule(text: str) -> bool:
    """Whether a line is what Markdown draws under a heading: `-- | -- | --`."""
    return "--" in text and _RULE.fullmatch(text) is not None


def read_progress(line: Line) -> tuple[int, Reading] | None:
    """Return the steps done and their mean time, from ``[20/20 05:11, Epoch 0/1]``."""
    found = _PROGRESS.search(line.text)
    elapsed_s = None if found is None else parse_duration_s(found["elapsed"])
    if found is None or elapsed_s is None or int(found["done"]) == 0:
        return None
    done = int(found["done"])
    return done, Reading(key=BAR_KEY, value=elapsed_s / done, text=f"{found['elapsed']} for {done}", line=line.number)


def _readings(keys: Sequence[str], texts: Sequence[str], line: Line) -> Iterator[Reading]:
    for key, text in zip(keys, texts, strict=True):
        value = None if text == _NOT_COMPUTED else parse_number(text)
        if value is not None:
            yield Reading(key=key, value=value, text=text, line=line.number)


def _cells(text: str) -> list[str]:
    border = "\t" if "\t" in text else "|"
    return [cell.strip() for cell in text.strip().strip("|").split(border)]
