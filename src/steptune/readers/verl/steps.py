"""verl console lines become steps.

`step:N` opens a step; everything with the same N belongs to it, because the fully asynchronous trainer prints
rollouter, validation and trainer metrics as separate lines (`concat_dict_to_str` in verl's aggregate_logger.py).
People also paste one metric per line. The surprise is the terminal: it breaks a long line anywhere, also inside
a number or a key, and a copy keeps the break::

    ... - response_length/mean:235.7      <- row full
    8125 - response_length/max:1024.0     <- 235.78125, known by the metrics that follow on the same row
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import final

from steptune.readers.formats.run_bar import RunBar
from steptune.readers.lines import MIN_WRAP_COLUMNS, Line, NumberedLine, clean_lines
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number
from steptune.readers.verl.screen_edge import ScreenEdge
from steptune.readers.verl.spoken import SpokenTimers
from steptune.readers.verl.tree import MARK, TreeLines, step_head

_STEP = re.compile(r"(?:^|(?<=[\s\])>|]))step:(\d{1,12})(?=\s|$)")
_MARK = re.compile(r"(?:^|\s)step:\d+ - [a-z_-]+/\S+:")
_SEPARATOR = re.compile(r"(?<!\s)\s{1,200}-\s{1,200}")
"""Bounded, as all that could be tried from every place of a long line of spaces or slashes."""
_METRIC = re.compile(r"-?\s*(?P<key>[A-Za-z][^\s:]{0,100}/[^\s:]{1,200})\s*:\s*(?P<value>\S+)(?:\s+\([\d.]+\s?%\))?\s*")
_PLAIN_METRIC = re.compile(
    r" - ([A-Za-z][^\s:]{0,100}/[^\s:]{1,200}):([-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|inf))(?= - |$)"
)
_AVERAGE = re.compile(r"\(avg \(std\), med\) = \(\s*(?P<value>[-+\w.]+) .*\)\s+#\s(?P<key>\w+(?:/[\w@.-]+)+)\s*$")
"""A metric that a monitor prints as average, spread and median, its name behind a `#`."""

_DECIMALS = re.compile(r":-?\d+\.(\d+)(?= - |\s*$)")
_LAST_DECIMALS = re.compile(r":-?\d+\.\d{3}\s*$")
_ENOUGH_VALUES = 8
"""Values of one row from which on their common number of decimals is a format."""

_GROUP = re.compile(
    r"(?:timing_s|timing_per_token_ms|critic|actor|perf|response_length|prompt_length|global_seqlen|training|val-core)/"
)
_TAIL = re.compile(r"[\w@./+()-]*(?::\s*[\w.+()-]*)?\s*")
"""The rest of a key or number at the start of a wrapped row: no spaces inside, no words."""

_KEY_HEAD = re.compile(r"[a-z_]+/[\w@./-]*:?")
"""The start of a key at the end of a row."""

_KEY_START = re.compile(r"[a-z_]{1,24}")
"""The start of a key's first part at the end of a row that holds other metrics."""

_BAR_LABELS = ("Training Progress", "Running step")
"""What the bar over the steps is called by verl and by EasyR1."""

_ENOUGH_INSIDE = 2
"""Whole metrics inside a line from which on it is one of verl's although it begins inside a key."""

_BARE_TAIL = re.compile(r"[\d.eE+()-]+|\S{1,200}:\S+")
"""A row that may be nothing but such a rest; other output can look the same."""

_UNSURE = "…"
"""Ends a value that may go on in a row that cannot be told from other output; parses as no number."""


def is_mark(text: str) -> bool:
    """Whether only verl prints such a line."""
    is_key = "timing_s/" in text or "actor_rollout_ref." in text
    return is_key or _MARK.search(text) is not None or MARK.match(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order, including those that hold no timing."""
    reader = _Reader(path=path)
    for line in clean_lines(raw_lines):
        for step in reader.feed(line):
            yield from reader.edge.take(step)
    for step in reader.end():
        yield from reader.edge.take(step)
    yield from reader.edge.end()


@final
@dataclass(kw_only=True, slots=True)
class _OpenLine:
    """A step line that may go on in the next row."""

    text: str
    rows: list[tuple[int, int]]
    """Start of every physical row inside `text`, and its line number."""
    last_row_width: int
    may_be_cut: bool
    is_ended: bool
    """Whether a line end came after its last row."""

    def line_at(self, offset: int) -> int:
        """Line number of the character at ``offset``."""
        if len(self.rows) == 1:
            return self.rows[0][1]
        return max(number for start, number in self.rows if start <= offset)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    path: str
    step: StepBuilder = field(init=False)
    open_line: _OpenLine | None = None
    tree: TreeLines | None = None
    edge: ScreenEdge = field(default_factory=ScreenEdge)
    spoken: SpokenTimers = field(init=False)
    bar: RunBar = field(init=False)
    last_key: str = ""
    """Of the last line of metrics."""
    has_timers: bool = False
    """Whether a line of metrics timed anything."""

    def __post_init__(self) -> None:
        self.step = StepBuilder(path=self.path)
        self.spoken = SpokenTimers(path=self.path)
        self.bar = RunBar(path=self.path, labels=_BAR_LABELS)

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the step it ends."""
        if self.tree is not None and self.tree.goes_on(line):
            metric = self.tree.take(line)
            yield from self._take([] if metric is None else [metric])
            return
        self.tree = None
        self.bar.take(line)
        start = _STEP.search(line.text) if "step:" in line.text else None
        if start is not None:
            yield from self._close_line()
            yield from self._turn_to(int(start[1]))
            self.open_line = _opened(line, line.text[start.start() :])
        elif self.open_line is not None and _goes_on(self.open_line, line):
            _join(self.open_line, line)
        else:
            yield from self._close_line()
            if _is_metrics(line.text):
                self.open_line = _opened_inside(line)
            elif (number := step_head(line)) is not None:
                yield from self._turn_to(number)
                self.tree = TreeLines(last_line=line.number)
            elif "med) = (" in line.text and (average := _AVERAGE.search(line.text)):
                yield from self._take([_metric(average["key"], average["value"], line.number, is_cut=False)])
            elif " seconds" in line.text and not self.has_timers:
                self.spoken.take(line)

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        yield from self._close_line()
        if not self.step.is_empty():
            yield self.step.build()
        if not self.has_timers:
            spoken = list(self.spoken.end())
            yield from spoken or self.bar.end()

    def _turn_to(self, number: int) -> Iterator[StepRecord]:
        if self.step.number == number:
            return
        if not self.step.is_empty():
            yield self.step.build()
        self.step = StepBuilder(path=self.path, number=number)

    def _close_line(self) -> Iterator[StepRecord]:
        line, self.open_line = self.open_line, None
        return self._take([] if line is None else self._metrics(line))

    def _metrics(self, line: _OpenLine) -> Iterator[Reading | Dropped]:
        """The metrics of a line, the edge of the screen told where the last one may be cut."""
        found = list(_metrics(line))
        if len(line.rows) == 1:
            self.edge.saw(line.last_row_width)
            found = self._with_end(found, line)
        if found and isinstance(last := found[-1], Reading) and _is_doubtful(line):
            self.edge.doubt(last.line, last.key, width=line.last_row_width, text=line.text)
        return iter(found)

    def _with_end(self, found: list[Reading | Dropped], line: _OpenLine) -> list[Reading | Dropped]:
        """The metrics, the last of the input whole if it ends as the step before it did and its line ended too."""
        if not found:
            return found
        last, before, self.last_key = found[-1], self.last_key, found[-1].key
        value = parse_number(last.text)
        if isinstance(last, Reading) or last.key != before or value is None:
            return found
        if not line.is_ended or _lacks_end(line):
            return found
        return [*found[:-1], Reading(key=last.key, value=value, text=last.text, line=last.line)]

    def _take(self, metrics: Iterable[Reading | Dropped]) -> Iterator[StepRecord]:
        for found in metrics:
            self.has_timers = self.has_timers or found.key.startswith("timing")
            if self.step.holds(found.key):
                yield self.step.build()
                self.step = StepBuilder(path=self.path, number=self.step.number)
            if isinstance(found, Reading):
                self.step.readings[found.key] = found
            else:
                self.step.dropped.append(found)


def _opened(line: Line, text: str) -> _OpenLine:
    return _OpenLine(
        text=text,
        rows=[(0, line.number)],
        last_row_width=line.width,
        may_be_cut=line.may_be_cut,
        is_ended=line.is_ended,
    )


def _is_metrics(text: str) -> bool:
    """Whether a line that opens no step is one metric, or a part of a step line whose beginning was not pasted.

    Of the latter the first and the last metric may be cut anywhere; a first one that does not begin with a group of
    verl's may be the rest of a key, ``s/gen:74.0``, which is passed over.
    """
    if "/" not in text or ":" not in text:
        return False
    first, *others = _SEPARATOR.split(text.strip().removeprefix("- "))
    if not others:
        return _METRIC.fullmatch(first) is not None
    *inner, last = others
    is_whole = _GROUP.match(first) is not None and _METRIC.fullmatch(first) is not None
    is_rest = _TAIL.fullmatch(first) is not None and len(inner) >= _ENOUGH_INSIDE and any(map(_GROUP.match, inner))
    is_open = len(inner) >= _ENOUGH_INSIDE and _KEY_START.fullmatch(last) is not None
    ends = _METRIC.fullmatch(last) is not None or (bool(inner) and _KEY_HEAD.fullmatch(last) is not None) or is_open
    return (is_whole or is_rest) and ends and all(map(_METRIC.fullmatch, inner))


def _opened_inside(line: Line) -> _OpenLine:
    """Open a line of metrics without a first one whose key may have lost its beginning: then the last is cut too."""
    text = line.text.strip().removeprefix("- ")
    first, *others = _SEPARATOR.split(text, maxsplit=1)
    if not others or _GROUP.match(first):
        return _opened(line, text)
    return _opened(replace(line, may_be_cut=True), others[0])


def _goes_on(opened: _OpenLine, line: Line) -> bool:
    """Whether ``line`` is the next row of a wrapped line: the row before was full and this one starts inside it."""
    if opened.last_row_width < MIN_WRAP_COLUMNS or not line.text.strip() or line.number != opened.rows[-1][1] + 1:
        return False
    first, *others = _SEPARATOR.split(line.text.strip())
    has_metrics = any(_METRIC.fullmatch(other) or _KEY_HEAD.fullmatch(other) for other in others)
    if _METRIC.fullmatch(first):
        is_tail_open = _METRIC.fullmatch(_SEPARATOR.split(opened.text)[-1]) is None
        return has_metrics or is_tail_open or first.startswith("- ")
    if others:
        return has_metrics and _TAIL.fullmatch(first) is not None
    return _BARE_TAIL.fullmatch(first) is not None


def _join(opened: _OpenLine, line: Line) -> None:
    """Append a row where the terminal broke it."""
    tail = _SEPARATOR.split(opened.text)[-1]
    first, *others = _SEPARATOR.split(line.text.strip())
    is_boundary = opened.text.endswith(" -") or line.text.startswith("- ")
    if is_boundary or (_METRIC.fullmatch(tail) and _METRIC.fullmatch(first)):
        opened.text = opened.text.rstrip(" -") + " - "
        text = line.text.removeprefix("- ")
    else:
        text = line.text if others else _UNSURE
    opened.rows.append((len(opened.text), line.number))
    opened.text += text
    opened.last_row_width = line.width
    opened.may_be_cut = opened.may_be_cut or line.may_be_cut
    opened.is_ended = line.is_ended


def _metrics(opened: _OpenLine) -> Iterator[Reading | Dropped]:
    """Split a whole line into its metrics: all at once where it is as verl prints it, else one by one."""
    plain = _PLAIN_METRIC.findall(opened.text) if len(opened.rows) == 1 and opened.text.startswith("step:") else []
    if not plain or len(plain) != opened.text.count(" - "):
        yield from _odd_metrics(opened)
        return
    line = opened.rows[0][1]
    for key, text in plain[:-1]:
        yield Reading(key=_single_prefix(key), value=float(text), text=text, line=line)
    key, text = plain[-1]
    yield _metric(_single_prefix(key), text, line, is_cut=_ends_early(opened))


def _odd_metrics(opened: _OpenLine) -> Iterator[Reading | Dropped]:
    segments = _SEPARATOR.split(opened.text)
    offset = 0
    for index, segment in enumerate(segments, start=1):
        start = opened.text.find(segment, offset)
        offset = start + len(segment)
        if found := _METRIC.fullmatch(segment):
            is_cut = index == len(segments) and _ends_early(opened)
            yield _metric(_single_prefix(found["key"]), found["value"], opened.line_at(start), is_cut=is_cut)


def _metric(key: str, text: str, line: int, *, is_cut: bool) -> Reading | Dropped:
    value = parse_number(text)
    if is_cut:
        return Dropped(key=key, text=text, line=line, why="may have lost digits: the line ends early")
    if value is None:
        return Dropped(key=key, text=text, line=line, why="is broken or no number")
    return Reading(key=key, value=value, text=text, line=line)


def _ends_early(opened: _OpenLine) -> bool:
    """Whether the last value counts as cut by itself: the input ends in it, or a wrapped line ends in a full row."""
    if _is_doubtful(opened) or _has_fixed_decimals(opened.text):
        return False
    return opened.may_be_cut or (len(opened.rows) > 1 and _lacks_end(opened))


def _is_doubtful(opened: _OpenLine) -> bool:
    """Whether only the widths of other rows tell if the last value is cut: one row with a line end of its own.

    The last row of the input is among them only if it comes as far as `timing_s/step`: pastes end anywhere.
    """
    if len(opened.rows) > 1 or not opened.is_ended or not _lacks_end(opened) or _has_fixed_decimals(opened.text):
        return False
    return not opened.may_be_cut or " - timing_s/step:" in opened.text


def _has_fixed_decimals(text: str) -> bool:
    """Whether every value has the same number of decimals, the last one too: it then has lost none.

    verl printed `{value:.3f}` until 0.6. A last value that still has all its decimals is whole wherever the row ends.
    """
    decimals = [len(found) for found in _DECIMALS.findall(text)]
    return len(decimals) >= _ENOUGH_VALUES and len({*decimals}) == 1 and _LAST_DECIMALS.search(text) is not None


def _lacks_end(opened: _OpenLine) -> bool:
    """Whether a row may be full and verl would have printed more in it.

    After the timings come per-token times and throughput; a full row of a step line that ends without
    `timing_s/step` or in it may be cut. Validation has lines of its own, without timings.
    """
    if not opened.text.startswith("step:") or opened.last_row_width < MIN_WRAP_COLUMNS:
        return False
    if " - " in opened.text.partition("timing_s/step:")[2]:
        return False
    return not all(segment.startswith("val-") for segment in _SEPARATOR.split(opened.text)[1:])


def _single_prefix(key: str) -> str:
    """Undo verl's doubled prefix: the fully async trainer names its timer `timing_s/param_sync` itself."""
    return key.removeprefix("timing_s/") if key.startswith("timing_s/timing_s/") else key
