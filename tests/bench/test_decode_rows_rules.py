"""The rules that `bench/decode_rows.py` scores by, on rows made here."""

import csv
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from decode_rows import Answers, ordered_right, weighted_quantile
from decode_rows_data import Config, Group, Layout, Measured, read_rows, three_points

GROUP = Group(engine="vllm", device="h100", model="gpt-oss-120b", precision="fp4")
ONE, FOUR = Layout(tensor=1, data=1, expert=1), Layout(tensor=4, data=1, expert=1)
ROW = {
    "id": "x_tp8_ep8_1",
    "silicon_data_source": "source_file=x; silicon_concurrency=64",
    "backend": "sglang",
    "model_path": "deepseek-ai/DeepSeek-V3",
    "system": "b200_sxm",
    "precision": "fp8",
    "mode": "agg",
    "isl": "1024",
    "osl": "1024",
    "gemm_quant_mode": "",
    "moe_quant_mode": "",
    "batch_size": "64",
    "tp_size": "8",
    "attention_dp_size": "1",
    "moe_tp_size": "1",
    "moe_ep_size": "8",
    "silicon_tpot_ms": "20.0",
}
TIMES_EIGHT = {"tp_size": "64", "moe_tp_size": "8"}


def read(folder: Path, *changes: dict[str, str]) -> tuple[dict[Group, list[Measured]], dict[Group, int]]:
    file = folder / "systems" / "silicon_sample.csv"
    file.parent.mkdir()
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, ROW)
        writer.writeheader()
        writer.writerows({**ROW, **change} for change in changes)
    return read_rows(folder)


def measured(rows: int, layout: Layout, seconds: float = 0.01, prompt: int = 1_024) -> Measured:
    config = Config(rows=rows, prompt=prompt, answer=1_024, layout=layout)
    return Measured(config=config, seconds=seconds, repeats=(seconds,))


def test_a_layout_written_eight_times_too_large_and_a_second_name_are_one_configuration(tmp_path: Path) -> None:
    rows, impossible = read(
        tmp_path, {}, TIMES_EIGHT, {"model_path": "deepseek-ai/DeepSeek-R1", "silicon_tpot_ms": "24.0"}
    )
    (own,) = rows.values()
    (one,) = own
    assert one.config.layout == Layout(tensor=8, data=1, expert=8)
    assert one.seconds == pytest.approx(0.022)  # the median of 20, 20 again and 24 ms, the repeat dropped
    assert impossible == {}


def test_divided_attention_is_told_by_its_column_or_by_the_batch_of_one_rank(tmp_path: Path) -> None:
    by_column = {"tp_size": "1", "attention_dp_size": "64", "moe_tp_size": "8", "batch_size": "1"}
    by_batch = {"attention_dp_size": "", "batch_size": "8", "isl": "2048"}
    rows, _ = read(tmp_path, by_column, by_batch)
    (own,) = rows.values()
    assert {(m.config.rows, m.config.layout) for m in own} == {(64, Layout(tensor=1, data=8, expert=8))}


def test_a_degree_that_cannot_be_is_counted_as_refused(tmp_path: Path) -> None:
    rows, impossible = read(tmp_path, {"tp_size": "36", "moe_tp_size": "36", "moe_ep_size": "1"})
    assert rows == {}
    assert list(impossible.values()) == [1]


def test_copies_of_a_dense_engine_do_not_share_its_batch(tmp_path: Path) -> None:
    rows, _ = read(
        tmp_path,
        {"model_path": "Qwen/Qwen3-32B", "tp_size": "2", "moe_ep_size": "1", "batch_size": "16", "precision": ""},
    )
    ((group, (one,)),) = rows.items()
    assert group.precision == "bf16"
    assert (one.config.rows, one.config.layout.devices) == (16, 2)


def test_the_points_are_the_ends_and_the_middle_of_the_layout_with_most_rows() -> None:
    home = [measured(n, FOUR, prompt=p) for n in (4, 16, 64) for p in (1_024, 8_192)]
    found = three_points([measured(1, ONE), measured(256, ONE), *reversed(home)])
    assert found is not None
    assert [(p.config.rows, p.config.prompt) for p in found] == [(4, 1_024), (16, 8_192), (64, 8_192)]
    assert {p.config.layout for p in found} == {FOUR}


def test_one_concurrency_gives_no_points() -> None:
    assert three_points([measured(4, ONE, prompt=p) for p in (1, 2, 3, 4)]) is None


def test_a_group_weighs_one_however_many_rows_it_has() -> None:
    # 100 rows at 0.5 weigh as much as one at 0.1: half of the weight is reached at 0.1
    assert weighted_quantile([[0.5] * 100, [0.1]], 0.5) == 0.1
    assert weighted_quantile([[0.5] * 100, [0.1]], 0.51) == 0.5
    assert weighted_quantile([], 0.5) is None


def test_only_pairs_far_apart_count_for_the_order() -> None:
    near, far = measured(8, ONE, 0.0110), measured(16, ONE, 0.0200)
    base = measured(4, ONE, 0.0100)
    assert ordered_right([(base, 1.0), (near, 0.5)]) is None
    assert ordered_right([(base, 1.0), (near, 0.5), (far, 0.9)]) == 0.5  # right against near, wrong against base


def test_what_has_no_forecast_and_what_cannot_be_are_both_refused() -> None:
    rows = [(measured(4, ONE), None), (measured(8, ONE), 0.1), (measured(16, ONE), 0.1)]
    assert Answers(group=GROUP, points=(), rows=rows, impossible=1).refused == 0.5
