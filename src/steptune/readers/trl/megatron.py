"""The line that Megatron's trainer prints per iteration, which Megatron-SWIFT fills with TRL's metrics.

The surprise: an iteration is an optimizer step. Where one generation serves several of them, one is long and the next
ones are short (modelscope/ms-swift #8173: 4 s each, 64 s on average), so its time is no more than a bar's rate; the
clock in the line, since the beginning, holds the generation too.
"""

import re
from collections.abc import Iterator

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.progress_bar import Bar
from steptune.readers.lines import Line
from steptune.readers.step import Dropped, Reading
from steptune.readers.values import parse_number

_HEAD = re.compile(r"\biteration +(?P<done>\d{1,9})/ *(?P<total>\d{1,9}) \| consumed samples: ")
_TIME = re.compile(r"\| elapsed time per iteration \(ms\): (?P<ms>\d+\.\d+) \|")
_CLOCK = re.compile(r"\| elapsed time: (?P<clock>[\w ]{1,30}) \|")
_FIELD = re.compile(r"\| (?P<name>[A-Za-z][\w /()-]{0,80}): +(?P<value>[-+\w.]+)(?:(?P<end>(?= \|))|(?=\s|$))")
_NAMES = {"grad norm": "grad_norm", "learning rate": "learning_rate"}
_OF_RUN = re.compile(
    r"consumed samples|global batch size|(?:elapsed|remaining) time.*|number of .*|loss scale|num zeros"
)
_MS_PER_S = 1000.0


def read_iteration(line: Line) -> tuple[Bar, list[Reading | Dropped]] | None:
    """Return an iteration's state, as a bar tells it, and its metrics; None for any other line."""
    head = _HEAD.search(line.text) if "consumed samples" in line.text else None
    time = None if head is None else _TIME.search(line.text)
    if head is None or time is None:
        return None
    clock = _CLOCK.search(line.text)
    bar = Bar(
        label="",
        done=int(head["done"]),
        total=int(head["total"]),
        elapsed_s=(parse_duration_s(clock["clock"]) if clock else None) or 0.0,
        item_s=float(time["ms"]) / _MS_PER_S,
        text=f"{time['ms']} ms",
        start=head.start(),
    )
    return bar, list(_metrics(line))


def _metrics(line: Line) -> Iterator[Reading | Dropped]:
    for field in _FIELD.finditer(line.text):
        name, text = field["name"], field["value"]
        value, key = parse_number(text), _NAMES.get(name, name)
        if value is None or _OF_RUN.fullmatch(name):
            continue
        if field["end"] is None and line.may_be_cut:
            yield Dropped(key=key, text=text, line=line.number, why="may have lost digits: the log ends here")
        else:
            yield Reading(key=key, value=value, text=text, line=line.number)
