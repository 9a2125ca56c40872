"""Files of any size become chunks of whole lines, in UTF-8, with their line numbers.

The surprise: logs redirected by PowerShell are UTF-16, logs of crashed machines hold runs of NUL bytes, and a
progress bar can write one "line" of megabytes. None of them may cost more memory than another.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, final

from steptune.core.errors import ReadError, explain

CHUNK_BYTES = 1 << 20
"""Bytes read at once: large enough that Python's cost per chunk vanishes, small enough to stay in the cache."""

EDGE_BYTES = 1 << 20
"""Bytes at either end of a file that are looked at more closely: set-up comes first and the failure last."""

_PROBE_BYTES = 4096
"""Bytes looked at to tell UTF-16 without a byte order mark."""

_NUL_SHARE = 0.3
"""Share of NUL bytes at odd or even places from which on a text is UTF-16: ASCII in UTF-16 has a half of all."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    r"""Some whole lines: ``Chunk(text=b"step:1 - a/b:1\n", first_line=1, is_edge=True)``.

    Only the end of the file may lack a line end.
    """

    text: bytes
    first_line: int
    """Number of its first line, from 1."""
    is_edge: bool
    """Whether it is near the beginning or the end of the file."""


def read_chunks(path: Path, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield the file's chunks in order; an empty file has none.

    Raises:
        ReadError: the file cannot be opened or read.
    """
    try:
        with path.open("rb") as file:
            yield from _whole_lines(_utf8_blocks(file, chunk_bytes), chunk_bytes, path.stat().st_size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ReadError:
    return ReadError(
        explain(
            "log cannot be read",
            got=f"{path} ({error.strerror})",
            allowed="a text file, a metrics file or a folder of them",
            hint="check the path",
        )
    )


def _utf8_blocks(file: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    head = file.read(_PROBE_BYTES)
    encoding, skip = _encoding_of(head)
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(errors="replace")
    block = head[skip:]
    while block:
        text = block if decoder is None else decoder.decode(block).encode("utf-8", errors="replace")
        yield text.translate(None, b"\0") if b"\0" in text else text
        block = file.read(chunk_bytes)


def _encoding_of(head: bytes) -> tuple[str, int]:
    """Name of the encoding and the length of its mark."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    enough = _NUL_SHARE * len(head)
    if head[1::2].count(0) > enough:
        return "utf-16-le", 0
    return ("utf-16-be", 0) if head[::2].count(0) > enough else ("utf-8", 0)


def _whole_lines(blocks: Iterator[bytes], chunk_bytes: int, size: int) -> Iterator[Chunk]:
    rest, line, passed = b"", 1, 0
    for block in blocks:
        text = rest + block
        cut = text.rfind(b"\n") + 1
        if cut == 0 and len(text) >= chunk_bytes:
            cut = len(text)
        rest = text[cut:]
        if cut:
            is_edge = passed < EDGE_BYTES or passed + cut > size - EDGE_BYTES
            yield Chunk(text=text[:cut], first_line=line, is_edge=is_edge)
            line += text.count(b"\n", 0, cut)
            passed += cut
    if rest:
        yield Chunk(text=rest, first_line=line, is_edge=True)
