"""One line of the journal: how an event becomes a line that names its predecessor, and how a line is believed. Pure.

Surprise: a line must be *byte for byte* what its content serialises to. Otherwise a space more, or one letter of
an escape in another case, would be an edit that no hash of the content sees.
"""

import hashlib
import json
from typing import Generic, TypeVar

from pydantic import ValidationError

from steptune.core.errors import StoreError, explain
from steptune.core.event import Event
from steptune.core.records import Record, canonical_json

JOURNAL_FORMAT = "steptune-journal-1"
"""Names the format, and is the `prev` of the first line: another format is another chain."""

UNTRUSTED = "the run folder can no longer be trusted: restore it from a copy, or start a new run"


Body = TypeVar("Body")
"""What a journal's lines say: a session's events, or the records of something else that must not be rewritten."""


class Line(Record, Generic[Body]):
    """One line: ``Line[Event](seq=3, time="2025-11-02T08:15:03.120+00:00", prev="9c1e", hash="04ab", body=...)``."""

    seq: int
    """Line number, from 1."""
    time: str
    """UTC, ISO 8601, milliseconds."""
    prev: str
    """Hash of the line before; `JOURNAL_FORMAT` in the first line."""
    hash: str
    """SHA-256 of the canonical JSON of ``[seq, time, prev, body]``, in hex."""
    body: Body


Entry = Line[Event]
"""A line of a session's journal."""


def chained(seq: int, time: str, prev: str, body: Record, line: type[Line[Body]]) -> Line[Body]:
    """Return the ``line`` that says ``body`` at ``time``, after the one whose hash is ``prev``."""
    raw = {"seq": seq, "time": time, "prev": prev, "body": json.loads(body.model_dump_json())}
    return line.model_validate({**raw, "hash": _hash(seq, time, prev, raw["body"]), "body": body})


def encoded(entry: Line[Body]) -> bytes:
    """Return the line of ``entry``, newline included; ASCII."""
    return canonical_json(entry).encode("ascii") + b"\n"


def decoded(lines: list[bytes], line: type[Line[Body]]) -> list[Line[Body]]:
    """Return the entries of ``lines`` (without newlines) after checking each against itself and the one before.

    Raises:
        StoreError: a line was edited, moved, removed or written by another version; names the first such line.
    """
    entries: list[Line[Body]] = []
    for number, text in enumerate(lines, 1):
        entries.append(_decoded(text, number, entries[-1].hash if entries else JOURNAL_FORMAT, line))
    return entries


def _decoded(text: bytes, number: int, prev: str, line: type[Line[Body]]) -> Line[Body]:
    try:
        raw = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _edited(number, "text that is no journal line") from error
    if not isinstance(raw, dict) or set(raw) != set(Line.model_fields) or _canonical(raw).encode() != text:
        raise _edited(number, "a line that no session writes")
    if raw["hash"] != _hash(raw["seq"], raw["time"], raw["prev"], raw["body"]):
        raise _edited(number, f"content that does not have the hash {_short(raw['hash'])}")
    if raw["seq"] != number or raw["prev"] != prev:
        got = f"seq {raw['seq']} after {_short(raw['prev'])}"
        raise StoreError(
            explain(
                f"line {number} of the journal does not follow the line before: lines were moved or removed",
                got=got,
                allowed=f"seq {number} after {_short(prev)}",
                hint=UNTRUSTED,
            )
        )
    try:
        return line.model_validate(raw)
    except ValidationError as error:
        raise StoreError(
            explain(
                f"line {number} of the journal is from another version of steptune",
                got=f"{error.error_count()} fields this version does not read",
                allowed="events of this version",
                hint="use the version that started the run",
            )
        ) from error


def _edited(number: int, got: str) -> StoreError:
    what = f"line {number} of the journal was edited or damaged"
    return StoreError(explain(what, got=got, allowed="the line as it was appended", hint=UNTRUSTED))


def _hash(seq: object, time: object, prev: object, body: object) -> str:
    return hashlib.sha256(_canonical([seq, time, prev, body]).encode()).hexdigest()


def _canonical(value: object) -> str:
    """Return the one JSON text of ``value``; the same that `core.records.canonical_json` gives of a record."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _short(text: object) -> str:
    return f"`{str(text)[:18]}`"
