"""Of a big file only the lines that hold a literal somebody wants, and the few after each.

Literals, not regular expressions: `bytes.find` skips 2 GB/s of uninteresting text, an alternation of patterns 70 MB/s
(measured on a log of vLLM's request lines). The surprise: a progress bar overwrites itself with carriage returns, so
one physical line can hold a thousand states and a record glued to the last of them; each becomes a line of its own
with the same number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

from steptune.readers.lines import NumberedLine
from steptune.readers.scan.chunks import Chunk

FOLLOWING_LINES = 2
"""Lines that come along after each wanted one: rows of a wrapped record, and what tells that a list has ended."""

MAX_LINE_BYTES = 1 << 16
"""Longest line that is handed on whole: the longest step line seen is 12 kB."""

MAX_LONE_HITS = 400
"""Lines of one chunk after which a literal that brings single lines is noise, more than one line in a hundred: it is
given up until the end of the file comes near, and there as many lines are taken from both sides of the chunk."""

_FEW_STATES = 4
"""Carriage-return states of one line up to which all are handed on; of more only those that hold a literal."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Needles:
    """What to look for: ``Needles(wanted=(b"step:",), lone=(b"SIGKILL",), lone_at_edges=(b"export ",))``."""

    wanted: tuple[bytes, ...]
    """Their lines come with the lines after them."""
    wanted_at_edges: tuple[bytes, ...] = ()
    """As `wanted`, but only near the beginning and the end of the file."""
    lone: tuple[bytes, ...] = ()
    """Their lines come alone."""
    lone_at_edges: tuple[bytes, ...] = ()
    """As `lone`, but only there."""


@final
@dataclass(kw_only=True, slots=True)
class LineTally:
    """How many lines were passed: ``LineTally(num_lines=81000)``."""

    num_lines: int = 0


def pick_lines(chunks: Iterable[Chunk], needles: Needles, tally: LineTally) -> Iterator[NumberedLine]:
    """Yield wanted lines with their numbers, in order, and count all lines into ``tally``."""
    owed, noisy = 0, set[bytes]()
    for chunk in chunks:
        text, number, offset = chunk.text, chunk.first_line, 0
        wanted = _starts(text, (*needles.wanted, *(needles.wanted_at_edges if chunk.is_edge else ())))
        lone = _lone_starts(chunk, needles, noisy)
        literals = (*needles.wanted, *needles.lone)
        for start in [*sorted(wanted | lone), len(text)]:
            while owed and offset < start:
                end = _line_end(text, offset)
                yield from _states(number, text[offset:end], literals)
                number, offset, owed = number + 1, end, owed - 1
            if start < len(text):
                number += text.count(b"\n", offset, start)
                end = _line_end(text, start)
                yield from _states(number, text[start:end], literals)
                number, offset = number + 1, end
                owed = FOLLOWING_LINES if start in wanted else max(owed - 1, 0)
        tally.num_lines = chunk.first_line - 1 + text.count(b"\n") + (not text.endswith(b"\n"))


def all_lines(chunks: Iterable[Chunk]) -> Iterator[NumberedLine]:
    """Yield every line with its number."""
    return pick_lines(chunks, Needles(wanted=(b"",)), LineTally())


def _starts(text: bytes, needles: Iterable[bytes]) -> set[int]:
    starts: set[int] = set()
    for needle in needles:
        starts.update(_hits(text, needle))
    return starts


def _lone_starts(chunk: Chunk, needles: Needles, noisy: set[bytes]) -> set[int]:
    """Beginnings of lines that come alone; literals that are everywhere go to ``noisy``."""
    starts: set[int] = set()
    if chunk.is_edge:
        for needle in (*needles.lone, *needles.lone_at_edges):
            hits = list(_hits(chunk.text, needle))
            starts.update(hits[: MAX_LONE_HITS // 2], hits[-MAX_LONE_HITS // 2 :])
        return starts
    for needle in set(needles.lone) - noisy:
        hits = list(islice(_hits(chunk.text, needle), MAX_LONE_HITS))
        starts.update(hits)
        if len(hits) == MAX_LONE_HITS:
            noisy.add(needle)
    return starts


def _hits(text: bytes, needle: bytes) -> Iterator[int]:
    """Yield the beginning of every line that holds ``needle``."""
    found = text.find(needle)
    while 0 <= found < len(text):
        yield text.rfind(b"\n", 0, found) + 1
        found = text.find(needle, _line_end(text, found))


def _line_end(text: bytes, start: int) -> int:
    end = text.find(b"\n", start)
    return len(text) if end < 0 else end + 1


def _states(number: int, raw: bytes, needles: Sequence[bytes]) -> Iterator[NumberedLine]:
    body = raw.rstrip(b"\r\n")
    if b"\r" not in body:
        yield number, _text(raw)
        return
    states = [state for state in body.split(b"\r") if state]
    if len(states) > _FEW_STATES:
        states = [state for state in states[:-1] if any(needle in state for needle in needles)] + states[-1:]
    for state in states[:-1]:
        yield number, _text(state + b"\n")
    yield number, _text(states[-1] + raw[len(body) :])


def _text(raw: bytes) -> str:
    """Decode a line; bytes that are no UTF-8 become replacement characters, which parse as nothing."""
    if len(raw) > MAX_LINE_BYTES:
        raw = raw[:MAX_LINE_BYTES].rpartition(b" ")[0] + b" \n"
    return raw.decode("utf-8", errors="replace")
