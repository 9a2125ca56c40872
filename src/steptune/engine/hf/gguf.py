"""Reads llama.cpp's GGUF files: metadata, and tensors as float32, whatever blocks they are packed in.

::

    magic | version | numbers of tensors and keys | keys and values | names, shapes, types, offsets | aligned tensors

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The surprise: shapes are written innermost
first, so a weight of 192 outputs and 576 inputs says ``[576, 192]`` and lies in memory as rows of 576.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from steptune.core.errors import ModelError, explain

MAGIC, VERSIONS = b"GGUF", (2, 3)
DEFAULT_ALIGNMENT = 32
"""Bytes; `general.alignment` says otherwise."""
BLOCK = 32
"""Numbers that share one scale in the quantised types."""

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""`struct` codes of the scalar value types."""
STRING, ARRAY = 8, 9

Value = bool | int | float | str | list["Value"]
"""What a key can hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """How numbers are packed: ``Packing(numbers=32, num_bytes=20, unpack=_q4_1)``."""

    numbers: int
    num_bytes: int
    unpack: Callable[[Tensor], Tensor]
    """uint8 [blocks, bytes] -> float32 [blocks, numbers]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    shape: tuple[int, ...]
    type_id: int
    offset: int


@final
class GgufFile:
    """An open file: ``metadata`` by key, ``tensor(name)`` one at a time."""

    def __init__(self, path: Path) -> None:
        """Read everything but the tensors.

        Raises:
            ModelError: no GGUF file, or a truncated one.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._at = 0
            self._read_header()
        except (OSError, ValueError, struct.error, KeyError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error

    @property
    def names(self) -> list[str]:
        """Every tensor."""
        return list(self._places)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor as float32.

        Raises:
            ModelError: it is packed in a way that is not read here, or lies beyond the file's end.
        """
        place = self._places[name]
        packing = PACKINGS.get(place.type_id)
        if packing is None:
            hint = "take a file in F32, F16, Q4_0, Q4_1 or Q8_0"
            raise ModelError(
                explain(
                    f"`{name}` has a number format not read here", got=place.type_id, allowed="0 to 3, 8", hint=hint
                )
            )
        size = prod(place.shape) // packing.numbers * packing.num_bytes
        start = self._data_start + place.offset
        raw = self._bytes[start : start + size]
        if len(raw) != size:
            raise self._damaged(f"`{name}` ends at byte {start + size}, the file at {len(self._bytes)}")
        blocks = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, packing.num_bytes)
        return packing.unpack(blocks).reshape(place.shape)

    def _read_header(self) -> None:
        if self._take(4) != MAGIC or (version := self._scalar("I")) not in VERSIONS:
            raise ValueError(f"not a GGUF file of version {VERSIONS}")
        assert isinstance(version, int), "narrowed above"
        num_tensors, num_keys = int(self._scalar("Q")), int(self._scalar("Q"))
        self.metadata: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._string()
            self.metadata[key] = self._value(int(self._scalar("I")))
        self._places = dict(self._place() for _ in range(num_tensors))
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        assert isinstance(alignment, int), "GGUF says so"
        self._data_start = -(-self._at // alignment) * alignment

    def _place(self) -> tuple[str, _Place]:
        name, num_axes = self._string(), int(self._scalar("I"))
        inner_first = [int(self._scalar("Q")) for _ in range(num_axes)]
        type_id, offset = int(self._scalar("I")), int(self._scalar("Q"))
        return name, _Place(shape=tuple(reversed(inner_first)), type_id=type_id, offset=offset)

    def _value(self, kind: int) -> Value:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        item, count = int(self._scalar("I")), int(self._scalar("Q"))
        return [self._value(item) for _ in range(count)]

    def _string(self) -> str:
        return self._take(int(self._scalar("Q"))).decode()

    def _scalar(self, code: str) -> bool | int | float:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0]

    def _take(self, count: int) -> bytes:
        taken = self._bytes[self._at : self._at + count]
        self._at += count
        if len(taken) != count:
            raise ValueError("the file ends within its header")
        return taken

    def _damaged(self, why: object) -> ModelError:
        hint = "install or download it again"
        return ModelError(explain(f"`{self.path}` cannot be read", got=why, allowed="a whole GGUF file", hint=hint))


def _float32(blocks: Tensor) -> Tensor:
    return blocks.view(torch.float32)


def _float16(blocks: Tensor) -> Tensor:
    return blocks.view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """Return 32 numbers of 4 bits from 16 bytes: all low halves, then all high halves."""
    return torch.cat((packed & 15, packed >> 4), dim=1).float()


def _q4_0(blocks: Tensor) -> Tensor:
    return blocks[:, :2].clone().view(torch.float16).float() * (_nibbles(blocks[:, 2:]) - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    scale_and_least = blocks[:, :4].clone().view(torch.float16).float()
    return scale_and_least[:, :1] * _nibbles(blocks[:, 4:]) + scale_and_least[:, 1:]


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, :2].clone().view(torch.float16).float() * blocks[:, 2:].view(torch.int8).float()


PACKINGS: dict[int, Packing] = {
    0: Packing(numbers=1, num_bytes=4, unpack=_float32),
    1: Packing(numbers=1, num_bytes=2, unpack=_float16),
    2: Packing(numbers=BLOCK, num_bytes=18, unpack=_q4_0),
    3: Packing(numbers=BLOCK, num_bytes=20, unpack=_q4_1),
    8: Packing(numbers=BLOCK, num_bytes=34, unpack=_q8_0),
}
"""ggml's type numbers."""
