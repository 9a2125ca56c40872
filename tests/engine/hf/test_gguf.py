import struct
from pathlib import Path

import pytest
import torch
from gguf_files import write_gguf

from steptune.core.errors import ModelError
from steptune.engine.hf.gguf import GgufFile

NIBBLES = bytes(i + 16 * (15 - i) for i in range(16))
"""Low halves 0 to 15, high halves 15 to 0."""


def half(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}e", *numbers)


def test_metadata_of_every_kind_is_read(tmp_path: Path) -> None:
    keys = {"a.int": 7, "a.float": 0.5, "a.flag": True, "a.text": "é", "a.list": ["x", "yz"], "a.numbers": [3, 1]}
    write_gguf(tmp_path / "f", keys, {})
    assert GgufFile(tmp_path / "f").metadata == keys


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (0, struct.pack("<32f", *range(32)), [float(i) for i in range(32)]),
        (1, half(*range(32)), [float(i) for i in range(32)]),
        (2, half(0.5) + NIBBLES, [0.5 * (q - 8) for q in (*range(16), *range(15, -1, -1))]),
        (3, half(0.5, -3.0) + NIBBLES, [0.5 * q - 3 for q in (*range(16), *range(15, -1, -1))]),
        (8, half(0.25) + struct.pack("<32b", *range(-16, 16)), [0.25 * q for q in range(-16, 16)]),
    ],
)
def test_every_packing_gives_back_its_numbers(tmp_path: Path, kind: int, raw: bytes, expected: list[float]) -> None:
    write_gguf(tmp_path / "f", {}, {"first": ((1, 32), 0, bytes(128)), "t": ((2, 32), kind, raw + raw)})
    tensor = GgufFile(tmp_path / "f").tensor("t")
    assert tensor.shape == (2, 32)
    assert tensor.dtype is torch.float32
    assert tensor.tolist() == [expected, expected]


def test_an_alignment_of_its_own_is_kept_to(tmp_path: Path) -> None:
    write_gguf(tmp_path / "f", {"general.alignment": 32}, {"t": ((2,), 0, struct.pack("<2f", 1.5, 2.5))})
    assert GgufFile(tmp_path / "f").tensor("t").tolist() == [1.5, 2.5]


@pytest.mark.parametrize("kept", [0, 3, 20, 60])
def test_a_truncated_header_is_told(tmp_path: Path, kept: int) -> None:
    write_gguf(tmp_path / "f", {"a.text": "hello", "b.text": "hello"}, {"t": ((2,), 0, bytes(8))})
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:kept])
    with pytest.raises(ModelError, match="cannot be read"):
        GgufFile(tmp_path / "f")


def test_a_truncated_tensor_and_an_unknown_packing_are_told(tmp_path: Path) -> None:
    write_gguf(tmp_path / "f", {}, {"t": ((32,), 0, bytes(128)), "odd": ((32,), 12, bytes(128))})
    with pytest.raises(ModelError, match="`odd` has a number format not read here, got 12"):
        GgufFile(tmp_path / "f").tensor("odd")
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:-200])
    with pytest.raises(ModelError, match="`t` ends at byte"):
        GgufFile(tmp_path / "f").tensor("t")
