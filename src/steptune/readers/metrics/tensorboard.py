"""TensorBoard event files, without TensorBoard: the framing and the few fields that hold scalars.

A file is a row of ``length (8 bytes, little endian) | its checksum (4) | event | checksum (4)``. An event is a
protobuf message: field 2 is the step, field 5 the summary, whose field 1 repeats values: field 1 the tag, field 2 a
float, field 8 a tensor (tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto). The
surprise: a killed job leaves half an event at the end, which is dropped; checksums are not verified.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from steptune.readers.metrics.rows import MetricRow

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
MAX_EVENT_BYTES = 1 << 24
"""Longer events hold images or graphs; a length above this is no length and the file no event file."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""

_STEP, _SUMMARY = 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_CONTENT, _FLOATS, _DOUBLES = 4, 5, 6
"""Field numbers, as in the module's docstring."""

_DOUBLE_BYTES = 8

Field = tuple[int, int | bytes]
"""Number and value: an integer for a varint, else the raw bytes."""


def is_events(head: bytes) -> bool:
    """Whether the head is the frame of a first event: a plausible length, and a wall time as its first field."""
    if len(head) <= _HEADER_BYTES:
        return False
    (length,) = struct.unpack_from("<Q", head)
    return _DOUBLE_BYTES < length < MAX_EVENT_BYTES and head[_HEADER_BYTES] == (1 << 3 | _FIXED64)


def read_events(path: Path) -> Iterator[MetricRow]:
    """Yield one row per event with scalars; its number stands for a line."""
    with path.open("rb") as file:
        for index, event in enumerate(_frames(file), start=1):
            row = _row(event, index)
            if row is not None:
                yield row


def _frames(file: BinaryIO) -> Iterator[bytes]:
    while len(header := file.read(_HEADER_BYTES)) == _HEADER_BYTES:
        (length,) = struct.unpack_from("<Q", header)
        if length > MAX_EVENT_BYTES:
            return
        event = file.read(length)
        if len(event) < length or len(file.read(_FOOTER_BYTES)) < _FOOTER_BYTES:
            return
        yield event


def _row(event: bytes, index: int) -> MetricRow | None:
    step = 0
    values: dict[str, tuple[float, str]] = {}
    for number, content in _fields(event):
        if number == _STEP and isinstance(content, int):
            step = content
        elif number == _SUMMARY and isinstance(content, bytes):
            for field, value in _fields(content):
                if field == _VALUE and isinstance(value, bytes) and (scalar := _scalar(value)):
                    values[scalar[0]] = (scalar[1], repr(scalar[1]))
    return MetricRow(number=step, values=values, line=index) if values else None


def _scalar(value: bytes) -> tuple[str, float] | None:
    tag, number = "", None
    for field, content in _fields(value):
        if not isinstance(content, bytes):
            continue
        if field == _TAG:
            tag = content.decode("utf-8", errors="replace")
        elif field == _SIMPLE_VALUE and len(content) == struct.calcsize("<f"):
            number = _short(content)
        elif field == _TENSOR:
            number = _tensor_scalar(content)
    return (tag, number) if tag and number is not None else None


def _tensor_scalar(tensor: bytes) -> float | None:
    """The value of a tensor of one number."""
    for field, content in _fields(tensor):
        if field in (_CONTENT, _FLOATS, _DOUBLES) and isinstance(content, bytes):
            if len(content) == struct.calcsize("<f"):
                return _short(content)
            if len(content) == _DOUBLE_BYTES:
                return float(struct.unpack("<d", content)[0])
    return None


def _short(content: bytes) -> float:
    """A 32-bit float with the digits it has, so that 21.47 does not become 21.469999313354492."""
    return float(f"{struct.unpack('<f', content)[0]:.7g}")


def _fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message; a broken one ends it."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            return
        if at + size > end:
            return
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Value and the place behind it; past the end of the message if it is cut."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            return value, at
    return value, len(message) + 1
