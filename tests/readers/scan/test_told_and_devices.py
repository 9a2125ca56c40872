from pathlib import Path

import pytest

from steptune.core.errors import ReadError
from steptune.readers.read_paste import read_paste
from steptune.readers.scan.devices import read_devices
from steptune.readers.scan.table_rows import read_table_rows
from steptune.readers.scan.walk import files_of


@pytest.mark.parametrize(
    ("text", "name", "count", "memory_gib"),
    [
        ("# 8x H100, seed 17", "H100", 8, None),
        ("NVIDIA A100-SXM4-80GB", "A100", None, 80.0),
        ("A100 80GB", "A100", None, 80.0),
        ("# Ascend 910B x1, Qwen2.5-0.5B", "910B", 1, None),
        ("GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is free", None, None, 79.15),
        ("Peak Mem.: 5.1/23.7 GiB (21.4%)", None, None, 23.7),
        ("# 2 nodes H200 (16 GPU), Qwen3 0.6B", "H200", 16, None),
    ],
)
def test_devices_are_read_off_text(text: str, name: str | None, count: int | None, memory_gib: float | None) -> None:
    claim = read_devices([(4, text)], "run.log")
    assert claim is not None
    assert (claim.name, claim.count, claim.memory_gib, claim.origin.line) == (name, count, memory_gib, 4)


@pytest.mark.parametrize("number", ["1e999", "9" * 5000, "nan", "-3", "0", "1_"])
def test_a_told_number_that_can_count_nothing_is_passed_over(tmp_path: Path, number: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"# fact: gpus={number}\n# fact: gpu_memory_gib={number}\n# fact: rollout.n={number}\n")
    devices = read_paste([path]).devices
    assert devices is None or (devices.count, devices.memory_gib) == (None, None)


@pytest.mark.parametrize("text", ["/models/my-H100-run/ckpt", "worker uses 1 GPU", "Qwen3-30B-A3B", "took 16 devices"])
def test_paths_models_and_worker_counts_are_no_devices(text: str) -> None:
    assert read_devices([(1, text)], "run.log") is None


def test_facts_told_in_comments_fill_in_what_no_line_says(tmp_path: Path) -> None:
    path = tmp_path / "post.txt"
    facts = "# fact: gpus=8\n# fact: gpu=C550\n# fact: gpu_memory_gib=64\n# fact: verl=0.7\n# fact: rollout.n=16\n"
    path.write_text(facts + "step:3 - perf/max_memory_allocated_gb:67.4 - timing_s/step:40.0 - a/b:1\nend\n")
    paste = read_paste([path])
    assert paste.devices is not None
    assert (paste.devices.name, paste.devices.count, paste.devices.memory_gib) == ("C550", 8, 64.0)
    assert paste.framework_version == "0.7"
    assert [(s.key, s.value, s.origin.line) for s in paste.settings] == [("rollout.n", 16, 5)]
    memory = paste.get_series("memory_allocated_gib")
    assert memory is not None
    # 67.4 GiB on a card of 64
    assert memory.finite() == []


def test_rows_of_a_table_keep_their_heading_and_a_list_is_no_table() -> None:
    lines = ["| Model | step (s) | refit (s) |", "|---|---|---|", "| 70B | 147 | 14 |", "", "| a | 1 |", "| b | 2 |"]
    [row] = read_table_rows(list(enumerate(lines, start=1)), "post.md")
    assert (row.text, row.context, row.origin.line, row.origin.key) == (lines[2], (lines[0],), 3, "table")


def test_a_path_that_is_not_there_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file"):
        files_of([tmp_path / "none"])
