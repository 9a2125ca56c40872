from collections.abc import Sequence
from pathlib import Path

import pytest
from reader_logs import steps_in

from steptune.readers.read_paste import read_paste
from steptune.readers.step import StepRecord

PREFIXES = ("(TaskRunner pid=9) ", "INFO ", "2026-01-02 10:00:00 ", "> ", "    ")


def row(number: int, prefix: str = "") -> str:
    metrics = f"actor/entropy:0.3 - response_length/mean:500.0 - timing_s/gen:{20 + number}"
    return f"{prefix}step:{number} - {metrics} - timing_s/update_actor:100.0 - timing_s/step:{120 + number}"


def steps_of(rows: Sequence[str]) -> list[StepRecord]:
    return list(steps_in([f"{text}\n" for text in rows], "verl"))


def step_times(rows: Sequence[str]) -> list[float | None]:
    return [step.value("timing_s/step") for step in steps_of(rows)]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("numbers", [(1,), (9, 10), tuple(range(1, 13))])
def test_rows_that_end_by_themselves_are_whole_under_any_prefix(
    prefix: str, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"{row(number, prefix)}\n" for number in numbers))
    assert step_times([row(number, prefix) for number in numbers]) == [120 + number for number in numbers]
    paste = read_paste([log])
    assert paste.profile is not None
    assert not [note for note in paste.notes if "left out" in note.text]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("count", [2, 12, 70])
def test_rows_that_all_end_in_one_column_may_be_cut(prefix: str, count: int) -> None:
    rows = [row(number, prefix) for number in range(100, 100 + count)]
    width = len(rows[0]) - 1
    found = steps_of([text[:width] for text in rows])
    assert [step.value("timing_s/step") for step in found] == [None] * count
    assert [step.dropped[-1].line for step in found] == list(range(1, count + 1))
    assert f"column {width}" in found[0].dropped[-1].why
    assert all(step.value("timing_s/update_actor") == 100 for step in found)


def test_one_row_printed_twice_is_no_edge_of_a_screen() -> None:
    assert step_times([row(1), row(1)]) == [121, 121]


@pytest.mark.parametrize("columns", [100, 120, 132, 160])
def test_a_lone_row_that_ends_where_terminals_do_may_be_cut(columns: int) -> None:
    text = "step:1 - timing_s/gen:20 - timing_s/step:121".rjust(columns)
    [step] = steps_of([text])
    assert step.value("timing_s/step") is None
    assert step.dropped[0].line == 1


def test_a_longer_row_proves_that_there_is_no_edge() -> None:
    longer = f"{row(3)} - perf/throughput:900.5"
    assert step_times([longer, row(1), row(2)]) == [123, 121, 122]


def test_a_last_row_without_its_line_end_may_be_cut() -> None:
    first, last = steps_in([f"{row(9)}\n", row(10)], "verl")
    assert (first.value("timing_s/step"), last.value("timing_s/step")) == (129, None)
    assert last.dropped[0].line == 2


def test_a_step_time_that_was_left_out_is_told_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{row(9)}\n{row(10)}\n{row(11)}")
    [note] = [note for note in read_paste([log]).notes if "timing_s/step" in note.text]
    assert "may have lost digits" in note.text
    assert note.origin is not None
    assert note.origin.line == 3
