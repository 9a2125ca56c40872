"""Which framework wrote this? Lines, metric keys and configuration keys vote; a mixture is decided by the most votes.

A paste of a configuration alone has no log line, a metrics file has nothing but keys, and people put the launch
script of one framework beside a step line of another ("verl, same setting: ..."). A traceback has neither: there the
modules, actors and scripts that it names count.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path

from steptune.core.paste import Setting
from steptune.readers.frameworks import every_framework
from steptune.readers.lines import clean
from steptune.readers.reading import FrameworkReader
from steptune.readers.scan.chunks import Chunk, read_chunks
from steptune.readers.scan.pick import LineTally, Needles, pick_lines

ENOUGH = 20
"""Votes of one kind that settle it; a longer look changes nothing."""

LOOK_BYTES = 1 << 18
"""Bytes looked at between two counts of the votes: most logs are told by the first of them."""

FAR_BYTES = 1 << 23
"""Bytes of a file after which any vote is enough."""

MAX_TRACE_VOTES = 4
"""Votes that names in tracebacks give at most: less than a configuration of more settings, which says what was run."""

WEAK = 2
"""Votes of lines and keys up to which the names in tracebacks count beside them."""

MAX_KEYS = 2000
"""Different metric keys of a text that are looked at; verl logs about 120."""

_KEY = re.compile(r"(?<![\w./:-])[A-Za-z_]\w*(?:/[\w.@-]+)+")

_FOREIGN = re.compile(
    r"num_return_sequences_in_group|(?:actor_train|actor_infer)\.strategy_args\.strategy_name|rewards\.\w+\.worker_cls"
    r"|runner\.(?:task_type|logger\.logger_backends)|cluster\.component_placement\..*"
)
"""Keys of frameworks that no reader knows (ROLL, RLinf). Their configurations share names with others', so that beside
one of these no key of a configuration tells a framework."""

Votes = Counter[str]
"""Votes by framework name."""


def winner(votes: Votes, hints: Votes | None = None) -> str | None:
    """Return the name with most votes, the earlier row of the table at a tie; without votes that with most hints."""
    best = max((row.name for row in every_framework()), key=lambda name: votes[name], default=None)
    if best is not None and votes[best] > 0:
        return best
    return None if hints is None else winner(hints)


def file_votes(path: Path) -> Votes:
    """Votes of the lines of a text file and of the keys near its beginning; with few, also of names in tracebacks."""
    votes, passed, told = Votes(), 0, dict[str, str]()
    for chunk in read_chunks(path, chunk_bytes=LOOK_BYTES):
        votes += _mark_votes(chunk)
        if votes.total() <= WEAK and chunk.is_edge:
            told |= _names(chunk)
        if passed == 0:
            votes += key_votes(_keys(chunk.text.decode("utf-8", errors="replace")))
        passed += len(chunk.text)
        most = max(votes.values(), default=0)
        if most >= ENOUGH or (most and passed > FAR_BYTES):
            break
    if votes.total() > WEAK:
        return votes
    return votes + Votes({name: min(count, MAX_TRACE_VOTES) for name, count in Votes(told.values()).items()})


def key_votes(keys: Iterable[str]) -> Votes:
    """One vote for each metric key that only one framework logs."""
    distinct = list(islice(dict.fromkeys(keys), MAX_KEYS))
    return _capped({row.name: sum(map(row.owns_key, distinct)) for row in every_framework()})


def setting_votes(settings: Iterable[Setting]) -> Votes:
    """One vote for each configuration key that only one framework has."""
    distinct = list(dict.fromkeys(setting.key for setting in settings))
    if any(map(_FOREIGN.fullmatch, distinct)):
        return Votes()
    return _capped({row.name: sum(map(row.owns_setting, distinct)) for row in every_framework()})


def table_votes(names: Iterable[str]) -> Votes:
    """One vote for each name in the first column of a table that is a timer of one framework only."""
    owners = ([row.name for row in every_framework() if row.table_key(name) is not None] for name in {*names})
    return Votes(found[0] for found in owners if len(found) == 1)


def shared_votes(keys: Iterable[str]) -> Votes:
    """One vote for each key that a framework shares with others."""
    distinct = list(islice(dict.fromkeys(keys), MAX_KEYS))
    if any(map(_FOREIGN.fullmatch, distinct)):
        return Votes()
    return _capped({row.name: sum(map(row.shares_key, distinct)) for row in every_framework()})


def _mark_votes(chunk: Chunk) -> Votes:
    return _capped({row.name: _num_marks(chunk, row) for row in every_framework()})


def _num_marks(chunk: Chunk, row: FrameworkReader) -> int:
    lines = pick_lines([chunk], Needles(wanted=(*row.wanted, *row.wanted_at_edges)), LineTally())
    return sum(1 for _ in islice((None for _, raw in lines if row.is_mark(clean(raw))), ENOUGH))


def _names(chunk: Chunk) -> dict[str, str]:
    """Different names of source trees, actors and scripts, each with the framework it stands for."""
    needles = tuple(needle for row in every_framework() for needle in row.trace_needles)
    lines = pick_lines([chunk], Needles(wanted=(), lone_at_edges=needles), LineTally())
    found = (name for _, raw in lines for name in _traces().finditer(raw))
    return {name[0]: name.lastgroup for name in found if name.lastgroup}


@cache
def _traces() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{row.name}>{row.traces})" for row in every_framework()))


def _keys(text: str) -> Iterable[str]:
    return (found[0] for found in _KEY.finditer(text))


def _capped(counts: dict[str, int]) -> Votes:
    return Votes({name: min(count, ENOUGH) for name, count in counts.items() if count})
