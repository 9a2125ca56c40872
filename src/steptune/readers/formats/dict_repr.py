"""Metrics in the repr of a Python dict, whole, wrapped over rows, cut, quoted or glued to something else.

Not evaluated: pairs are found one by one, so that one broken value costs only itself. A value counts only when a
comma or the closing brace follows it: a number at a row's end may go on in the next one, and `1,234` is not 1.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from steptune.readers.lines import MIN_WRAP_COLUMNS, Line
from steptune.readers.step import Dropped, Reading
from steptune.readers.values import NUMBER_PATTERN, parse_number

_PAIR = re.compile(
    r"(?:'(?P<key>[A-Za-z_][^'\n]*)'|\"(?P<json>[A-Za-z_][^\"\n]*)\"|(?:^|(?<=[\s{,]))(?P<bare>[a-z]+/[\w./-]+)')"
    r"\s*:[\s_]*"
    r"(?:(?P<quote>['\"])(?P<quoted>[^'\"\n]*)(?P=quote)|(?P<plain>[\w.]+\([^()\n]*\)|[-+\w.]+))(?P<end>\s*(?:,(?!\d)|\}))?(?P<more>(?=,\d))?"
)
"""``bare`` is a key whose first quote was lost when it was copied: `perf/rollout_time': 245.6`. JSON has other quotes,
and text read off a picture an underscore where a space was: `'perf/log_probs_tflops':_11.65`."""

_WHOLE = {
    quote: re.compile(
        rf"{quote}([A-Za-z_][^{quote}\n]*){quote}: "
        rf"(?:({NUMBER_PATTERN})|{quote}({NUMBER_PATTERN}){quote}|{quote}[^'\"(\n]*{quote}|\w+)(?:,(?!\d)|\}})"
    )
    for quote in "'\""
}
"""By the quote of a record whose values have the same one or none: a key with a bare number, a quoted one or
any name."""

_MIN_FULL_ROWS = 2
"""Rows of one length from which on that length is the screen's."""

MAX_ROWS = 80
"""Rows that one record may take: a dict of 40 metrics on a narrow terminal takes about 30."""


def _start(row: tuple[int, int]) -> int:
    return row[0]


@final
@dataclass(kw_only=True, slots=True)
class DictText:
    """A record and the rows it came on: ``DictText.of(line)``, then `add` until `is_closed`."""

    text: str
    rows: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Start of every row inside `text`, and its line number."""
    widths: list[int] = field(default_factory=list[int])
    """Columns of every row on the screen."""
    may_be_cut: bool = False

    @staticmethod
    def of(line: Line, start: int = 0) -> "DictText":
        """Begin a record at ``start`` of ``line``."""
        return DictText(
            text=line.text[start:], rows=[(0, line.number)], widths=[line.width], may_be_cut=line.may_be_cut
        )

    @property
    def is_closed(self) -> bool:
        """Whether the closing brace was seen, or so many rows that it was lost."""
        return "}" in self.text or len(self.rows) >= MAX_ROWS

    def add(self, line: Line) -> None:
        """Append the next row."""
        self.rows.append((len(self.text) + 1, line.number))
        self.widths.append(line.width)
        self.text += "\n" + line.text
        self.may_be_cut = line.may_be_cut

    def joined(self) -> "DictText":
        """Return the record on one row, where its rows are those of a screen: equally long but for the last.

        A terminal breaks a line anywhere, also inside a key or a number. One full row alone may be so by chance.
        """
        *full, last = self.widths
        if len(full) < _MIN_FULL_ROWS or len({*full}) > 1 or full[0] < max(MIN_WRAP_COLUMNS, last):
            return self
        rows = [(start - index, number) for index, (start, number) in enumerate(self.rows)]
        return DictText(text=self.text.replace("\n", ""), rows=rows, may_be_cut=self.may_be_cut)

    def line_at(self, offset: int) -> int:
        """Line number of the character at ``offset``."""
        return self.rows[bisect_right(self.rows, offset, key=_start) - 1][1]


def read_pairs(record: DictText) -> list[Reading | Dropped]:
    """Return the numeric pairs of a record in order; other values (lists, names, None) are passed over."""
    record = record.joined()
    whole = _read_whole(record) if len(record.rows) == 1 else None
    return list(_read_each(record)) if whole is None else [*whole]


def _read_whole(record: DictText) -> list[Reading] | None:
    """Read a record on one row of which every pair is whole, several times as fast as pair by pair; None otherwise."""
    text = record.text
    end = text.find("}") + 1
    quote = '"' if text.startswith('{"') else "'"
    if end == 0 or not text.startswith("{" + quote):
        return None
    pairs = _WHOLE[quote].findall(text, 0, end)
    if len(pairs) != text.count("':") + text.count('":'):
        return None
    line = record.rows[0][1]
    return [
        Reading(key=key, value=float(digits), text=digits, line=line)
        for key, plain, quoted in pairs
        if (digits := plain or quoted)
    ]


def _read_each(record: DictText) -> Iterator[Reading | Dropped]:
    is_dict = "{" in record.text or "}" in record.text
    end = len(record.text.rstrip())
    for pair in _PAIR.finditer(record.text):
        key, line = pair["key"] or pair["json"] or pair["bare"], record.line_at(pair.start())
        text = pair["plain"] if pair["quoted"] is None else pair["quoted"]
        value = parse_number(text)
        is_open = pair["end"] is None and pair["quoted"] is None
        is_part = is_dict or pair["more"] is not None or (pair.end() == end and record.may_be_cut)
        if is_open and is_part and re.match(r"[-+.\d]|np\.", text):
            yield Dropped(key=key, text=text, line=line, why="may have lost digits: the record breaks off after it")
        elif value is not None:
            yield Reading(key=key, value=value, text=text, line=line)
