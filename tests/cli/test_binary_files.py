"""Bytes that are no text are refused: they spell devices and settings by chance."""

import gzip
import random
from pathlib import Path

import pytest

from steptune.cli.binary_files import kind_of
from steptune.cli.main import main

POST = Path(__file__).parents[1] / "pasted" / "fixtures" / "V22.txt"


@pytest.mark.parametrize("content", [random.Random(7).randbytes(200_000), bytes(range(256)) * 8])
@pytest.mark.parametrize("command", ["diagnose", "lint"])
def test_noise_is_refused_and_answered_with_nothing(
    command: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "noise.dat"
    path.write_bytes(content)
    assert main([command, str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "file is no text, got binary in `noise.dat`" in said.err


def test_a_packed_log_is_refused_by_its_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(gzip.compress(POST.read_bytes()))
    assert main(["diagnose", str(path)]) == 1
    assert "got gzip in `run.log`" in capsys.readouterr().err
    assert main(["compare", str(path), str(POST)]) == 1


def test_noise_beside_a_log_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noise.dat").write_bytes(random.Random(7).randbytes(9000))
    assert main(["diagnose", str(POST), str(tmp_path / "noise.dat")]) == 0
    said = capsys.readouterr()
    assert "left out: file is no text, got binary in `noise.dat`" in said.err
    assert "Trainer-bound" in said.out


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 9000 + b"step:1 - timing_s/gen:2.0\n",  # a hole that log rotation leaves
        "训练步骤 step:1\n".encode("utf-16"),
        "训练步骤：一\n".encode("gbk"),
        b"\x1b[36m(TaskRunner pid=7)\x1b[0m step:1\x08\x08\x08\r\n\x07",
        b"SQLite format 3\0" + bytes(range(1, 32)) * 9,
    ],
)
def test_text_of_every_sort_and_databases_are_read(content: bytes) -> None:
    assert kind_of(content) is None
