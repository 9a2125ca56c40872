"""The journal: every event of a session, one line each, appended and never changed.

Each line carries its own hash and that of the line before, so an edited, moved or removed line shows. How many
lines there are also stands in the *head*, so that a removed last line shows too::

    journal.jsonl        {body, hash, prev, seq, time}     synced first
    journal-head.json    {format, hash, num_lines}         replaced once its line is on disk

A crash can leave a torn last line (no newline, unknown to the head), which is moved aside when the session goes
on, or a whole last line that the head does not count yet, which is valid.
Surprise: this shows damage and edits by hand. It is no signature: who recomputes every hash can forge it all.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Generic, final

from pydantic import Field, ValidationError

from steptune.core.errors import StoreError, explain
from steptune.core.event import Event
from steptune.core.records import Record, canonical_json
from steptune.store.files import as_store_error, replace, write_all, write_once
from steptune.store.journal_lines import JOURNAL_FORMAT, UNTRUSTED, Body, Entry, Line, chained, decoded, encoded

Clock = Callable[[], datetime]
"""Tells the time, with its zone; tests pass one that they set."""


class Head(Record):
    """What the journal held after its last append: ``Head(num_lines=3, hash="04ab...")``."""

    format: str = JOURNAL_FORMAT
    num_lines: Annotated[int, Field(ge=0)]
    hash: str
    """Hash of line `num_lines`; `JOURNAL_FORMAT` while there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked(Generic[Body]):
    """A journal that was read and found whole."""

    entries: list[Line[Body]]
    head: Head
    torn: bytes
    """What follows the last newline: the start of a line that a crash cut off."""
    num_bytes: int
    """Size of the whole lines."""


@final
class Journal(Generic[Body]):
    """A journal open for appending. Hold the session lock: two writers would break each other's chain.

    After a failed append (full disk, vanished folder) it refuses every further one: what is on disk is then
    known only by reading it again.
    """

    def __init__(
        self, path: Path, clock: Clock, line: type[Line[Body]], entries: list[Line[Body]], num_bytes: int
    ) -> None:
        self.path = path
        self._line = line
        self._clock = clock
        self._entries = entries
        self._num_bytes: int | None = num_bytes
        """Size of the file after the last append; None once an append has failed."""

    @property
    def entries(self) -> tuple[Line[Body], ...]:
        """Every entry so far, in order."""
        return tuple(self._entries)

    @property
    def events(self) -> tuple[Body, ...]:
        """Every event so far, in order."""
        return tuple(entry.body for entry in self._entries)

    def append(self, event: Record) -> Line[Body]:
        """Write ``event`` as the next line; on return it is on disk.

        Raises:
            StoreError: the disk is full, the file is gone, or somebody else wrote to it.
        """
        if self._num_bytes is None:
            hint = "go on with `steptune tune --resume`"
            raise StoreError(
                explain("the journal is closed", got="a failed append before", allowed="whole appends", hint=hint)
            )
        prev = self._entries[-1].hash if self._entries else JOURNAL_FORMAT
        entry = chained(len(self._entries) + 1, _utc_text(self._clock()), prev, event, self._line)
        line = encoded(entry)
        num_bytes, self._num_bytes = self._num_bytes, None
        _append_bytes(self.path, line, num_bytes)
        _write_head(self.path, entry)
        self._entries.append(entry)
        self._num_bytes = num_bytes + len(line)
        return entry


def create_journal(path: Path) -> None:
    """Make an empty journal and its head.

    Raises:
        StoreError: one is there already, or it cannot be written.
    """
    write_once(head_path(path), canonical_json(Head(num_lines=0, hash=JOURNAL_FORMAT)) + "\n")
    write_once(path, "")


def read_journal(path: Path) -> list[Line[Event]]:
    """Return every entry of a session's journal; see `read_lines`."""
    return read_lines(path, Entry)


def read_lines(path: Path, line: type[Line[Body]]) -> list[Line[Body]]:
    """Return every entry of the journal at ``path`` after checking all of it; a torn last line is left out.

    Safe while another process appends: the head is read first, so the journal can only be ahead of it.

    Raises:
        StoreError: missing, from another version, or a line was edited, moved or removed; names the line.
    """
    return _checked(path, line).entries


def open_for_append(path: Path, clock: Clock) -> Journal[Event]:
    """Open a session's journal to go on with it; see `open_lines`."""
    return open_lines(path, clock, Entry)


def open_lines(path: Path, clock: Clock, line: type[Line[Body]]) -> Journal[Body]:
    """Open the journal at ``path``, whose lines are ``line``, to go on with it.

    A torn last line is moved to ``journal.torn-<n>`` beside it first, never deleted.

    Raises:
        StoreError: as `read_lines`, or the disk is full.
    """
    checked = _checked(path, line)
    if checked.torn:
        _set_aside(path, checked)
    if len(checked.entries) > checked.head.num_lines:
        _write_head(path, checked.entries[-1])
    return Journal(path, clock, line, checked.entries, checked.num_bytes)


def head_path(journal: Path) -> Path:
    """Return the path of the head that belongs to ``journal``."""
    return journal.with_name(f"{journal.stem}-head.json")


def _checked(path: Path, line: type[Line[Body]]) -> Checked[Body]:
    head = _read_head(head_path(path))
    with as_store_error("reading", path):
        content = path.read_bytes()
    whole, newline, torn = content.rpartition(b"\n")
    entries = decoded(whole.split(b"\n") if newline else [], line)
    hashes = [JOURNAL_FORMAT, *(entry.hash for entry in entries)]
    if head.num_lines >= len(hashes):
        what = f"line {len(hashes)} of the journal was removed or cut off"
        got, allowed = f"{len(entries)} whole lines", f"{head.num_lines} lines, as its head says"
        raise StoreError(explain(what, got=got, allowed=allowed, hint=UNTRUSTED))
    if hashes[head.num_lines] != head.hash:
        what = f"line {head.num_lines} of the journal is not the line its head names"
        raise StoreError(explain(what, got=hashes[head.num_lines], allowed=head.hash, hint=UNTRUSTED))
    return Checked(entries=entries, head=head, torn=torn, num_bytes=len(content) - len(torn))


def _read_head(path: Path) -> Head:
    with as_store_error("reading", path):
        content = path.read_bytes()
    try:
        head = Head.model_validate_json(content)
    except ValidationError as error:
        what = f"`{path}` was edited or damaged"
        raise StoreError(explain(what, got=repr(content[:60]), allowed="a journal head", hint=UNTRUSTED)) from error
    if head.format != JOURNAL_FORMAT:
        hint = "use the version that started the run"
        raise StoreError(
            explain(f"`{path}` is from another version", got=head.format, allowed=JOURNAL_FORMAT, hint=hint)
        )
    return head


def _write_head(journal: Path, last: Line[Body]) -> None:
    replace(head_path(journal), canonical_json(Head(num_lines=last.seq, hash=last.hash)) + "\n")


def _append_bytes(path: Path, line: bytes, num_bytes: int) -> None:
    with as_store_error("appending to", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)  # no O_CREAT: a vanished file must show
        try:
            size = os.fstat(descriptor).st_size
            if size != num_bytes:
                what, got = f"`{path}` was changed by somebody else", f"{size} bytes"
                hint = "end the other process, then go on with `steptune tune --resume`"
                raise StoreError(explain(what, got=got, allowed=f"the {num_bytes} bytes written so far", hint=hint))
            write_all(descriptor, line)
        finally:
            os.close(descriptor)


def _set_aside(path: Path, checked: Checked[Body]) -> None:
    """Copy the torn line to a file of its own, then cut it off; a crash in between only leaves a second copy."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.torn-{number}")).exists():
        number += 1
    write_once(aside, checked.torn)
    with as_store_error("cutting a torn line off", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, checked.num_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _utc_text(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="milliseconds")
