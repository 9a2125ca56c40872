"""The beginning of a file, line by line and clean: where configurations are printed and machines are named."""

from collections.abc import Iterator
from pathlib import Path

from steptune.readers.lines import NumberedLine, clean
from steptune.readers.scan.chunks import Chunk, read_chunks
from steptune.readers.scan.pick import all_lines

HEAD_BYTES = 1 << 20
"""Bytes at the beginning of a file that are read line by line: a job prints its configuration in the first 100 kB,
and every configuration file is smaller than this."""


def head_lines(path: Path) -> list[NumberedLine]:
    """Return the clean lines of the first megabyte.

    Raises:
        ReadError: the file cannot be opened.
    """
    return [(number, clean(raw)) for number, raw in all_lines(_head_chunks(path))]


def _head_chunks(path: Path) -> Iterator[Chunk]:
    passed = 0
    for chunk in read_chunks(path, chunk_bytes=HEAD_BYTES):
        if passed >= HEAD_BYTES:
            return
        yield chunk
        passed += len(chunk.text)
