"""A pack: one file that carries a session to somebody else, who can check it and run it again.

::

    line 1      header: format, versions, seeds, where the chain of the original ended, SHA-256 of all that follows
    line 2...   the journal, chained as in the run folder: job, machine, every forecast, observation and decision

Surprise: where a secret was taken out, the lines are chained afresh and cannot have the original's hashes; the header
says how many strings were changed. As with the journal, this shows damage and edits by hand, and is no signature.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pydantic import ValidationError

from steptune.core.errors import StoreError, explain
from steptune.core.event import Event
from steptune.core.records import Record, canonical_json
from steptune.store.files import as_store_error, replace
from steptune.store.journal_lines import JOURNAL_FORMAT, Entry, Line, chained, decoded, encoded

PACK_FORMAT = "steptune-pack-1"
"""Names the format; another one is refused, never guessed at."""

NOT_WHOLE = "ask for the file again; a pack that was changed proves nothing"


class PackHeader(Record):
    """First line of a pack: ``PackHeader(format="steptune-pack-1", name="math-20261130T120000Z", ...)``."""

    format: str
    steptune_version: str
    """The version that packed it."""
    name: str
    """Name of the run folder."""
    job_seed: int
    confirm_seeds: tuple[int, ...]
    """Seeds of the confirmation's launches; the same that `--replicate` uses."""
    num_lines: int
    original_head: str
    """Hash of the last line of the journal that was packed."""
    num_redacted: int
    """Strings that were changed to hide secrets and home folders; 0 means the lines are the original's."""
    sha256: str
    """Of all lines after this one."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """A pack that was read and found whole."""

    header: PackHeader
    entries: tuple[Line[Event], ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event of the session, in order."""
        return tuple(entry.body for entry in self.entries)


def chain_of(entries: Sequence[Line[Event]], bodies: Sequence[Event]) -> list[Line[Event]]:
    """Return ``entries`` with other ``bodies``, chained afresh; with the same bodies they are the same lines."""
    lines: list[Line[Event]] = []
    for entry, body in zip(entries, bodies, strict=True):
        prev = lines[-1].hash if lines else JOURNAL_FORMAT
        lines.append(chained(entry.seq, entry.time, prev, body, Entry))
    return lines


def digest_of(entries: Sequence[Line[Event]]) -> str:
    """Return the SHA-256 (hex) of the lines as they are written."""
    return hashlib.sha256(b"".join(map(encoded, entries))).hexdigest()


def write_pack(path: Path, pack: Pack) -> None:
    """Write ``pack``, whole or not at all.

    Raises:
        StoreError: the file cannot be written, or the disk is full.
    """
    replace(path, canonical_json(pack.header).encode("ascii") + b"\n" + b"".join(map(encoded, pack.entries)))


def read_pack(path: Path) -> Pack:
    """Return the pack at ``path`` after checking every line of it.

    Raises:
        StoreError: it is missing, no pack, of another format, cut off, or a line was edited, moved or removed.
    """
    with as_store_error("reading", path):
        first, newline, rest = path.read_bytes().partition(b"\n")
    try:
        header = PackHeader.model_validate_json(first)
    except ValidationError as error:
        hint = "`steptune report RUN --pack FILE` makes one"
        raise StoreError(
            explain(f"`{path}` is no pack", got="another first line", allowed=PACK_FORMAT, hint=hint)
        ) from error
    if header.format != PACK_FORMAT:
        what, hint = f"`{path}` is from another version", f"use steptune {header.steptune_version}"
        raise StoreError(explain(what, got=header.format, allowed=PACK_FORMAT, hint=hint))
    entries = decoded(rest.split(b"\n")[:-1], Entry) if newline else []
    _check(path, header, entries, rest)
    return Pack(header=header, entries=tuple(entries))


def _check(path: Path, header: PackHeader, entries: Sequence[Line[Event]], rest: bytes) -> None:
    if len(entries) != header.num_lines or hashlib.sha256(rest).hexdigest() != header.sha256:
        got, allowed = f"{len(entries)} lines of another content", f"{header.num_lines} lines as packed"
        raise StoreError(explain(f"`{path}` was changed or cut off", got=got, allowed=allowed, hint=NOT_WHOLE))
    if not header.num_redacted and entries and entries[-1].hash != header.original_head:
        what = f"`{path}` does not end where its journal ended"
        raise StoreError(explain(what, got=entries[-1].hash, allowed=header.original_head, hint=NOT_WHOLE))
