"""Writes TensorBoard event files, checksums left at zero: readers here do not look at them."""

import struct
from collections.abc import Iterable


def events(scalars: Iterable[tuple[int, str, float]], *, as_tensors: bool = False) -> bytes:
    """A whole file: the version event, then one event per scalar."""
    first = b"\x09" + struct.pack("<d", 1.0) + _field(3, b"brain.Event:2")
    return _frame(first) + b"".join(_frame(_event(*scalar, as_tensor=as_tensors)) for scalar in scalars)


def _event(step: int, tag: str, value: float, *, as_tensor: bool) -> bytes:
    simple = b"\x15" + struct.pack("<f", value)
    tensor = _field(8, b"\x08\x01" + _field(4, struct.pack("<f", value)))
    summary = _field(1, _field(1, tag.encode()) + (tensor if as_tensor else simple))
    return b"\x09" + struct.pack("<d", 2.0) + b"\x10" + _varint(step) + _field(5, summary)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _frame(event: bytes) -> bytes:
    return struct.pack("<Q", len(event)) + b"\0\0\0\0" + event + b"\0\0\0\0"
