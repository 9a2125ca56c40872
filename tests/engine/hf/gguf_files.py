"""Writes GGUF files as the format's description says, for the reader's tests."""

import struct
from pathlib import Path
from typing import Any

Packed = tuple[tuple[int, ...], int, bytes]
"""Shape outermost first, ggml type, bytes."""


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(what: Any) -> bytes:
    """Return type and bytes of a key's value."""
    if isinstance(what, bool):
        return struct.pack("<I?", 7, what)
    if isinstance(what, int):
        return struct.pack("<II", 4, what)
    if isinstance(what, float):
        return struct.pack("<If", 6, what)
    if isinstance(what, str):
        return struct.pack("<I", 8) + text(what)
    items = [value(item) for item in what]
    kind = items[0][:4]
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(items)) + b"".join(item[4:] for item in items)


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, Packed]) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value(what) for key, what in metadata.items())
    body = b""
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(body))
        body += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + body)
