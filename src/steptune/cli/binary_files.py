"""Files that are no text are refused: read as lines, enough noise spells a device or a setting by chance.

Surprise: not every strange byte is a sign. Logs hold colours, backspaces of old progress bars and holes of NULs that
log rotation leaves, and text in UTF-16 is half NULs; none of these counts.
"""

from collections.abc import Sequence
from pathlib import Path

from steptune.cli.streams import say
from steptune.core.errors import ReadError, explain
from steptune.readers.metrics.tensorboard import is_events
from steptune.readers.metrics.trackio import is_sqlite

HEAD_BYTES = 8192
"""Bytes from the start of a file that decide."""

MAX_CONTROL_FRAC = 0.03
"""Share of control characters above which bytes are no text: drawn at random 0.08 are, in logs next to none. Prior."""

_CONTROLS = bytes((*range(1, 7), *range(0x10, 0x1B), *range(0x1C, 0x20)))
"""Control characters that no terminal program prints."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of what a log may be packed in."""


def without_binary(paths: Sequence[Path]) -> list[Path]:
    """Return ``paths`` without those that are no text and no metric file; what is left out is said on standard error.

    Raises:
        ReadError: nothing else was handed in.
    """
    told = {path: kind for path in paths if (kind := kind_of(_head(path))) is not None}
    sentences = [_sentence(path, kind) for path, kind in told.items()]
    if told and len(told) == len(paths):
        raise ReadError(sentences[0])
    for sentence in sentences:
        say(f"steptune: left out: {sentence}")
    return [path for path in paths if path not in told]


def kind_of(head: bytes) -> str | None:
    """Return what the first bytes of a file are of, where that is neither text nor a file of metrics."""
    packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if packed is not None or head.startswith(_UTF_16) or is_sqlite(head) or is_events(head):
        return packed
    num_controls = len(head) - len(head.translate(None, _CONTROLS))
    return "binary" if num_controls > MAX_CONTROL_FRAC * len(head) else None


def _head(path: Path) -> bytes:
    """Return the first bytes; none of a file that cannot be read, which its reader will say better."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _sentence(path: Path, kind: str) -> str:
    hint = "hand in the log itself" if kind == "binary" else "unpack it first; `-` reads what a pipe unpacks"
    return explain("file is no text", got=f"{kind} in `{path.name}`", allowed="text or a file of metrics", hint=hint)
