from steptune.readers.frameworks import framework
from steptune.readers.scan.step_table import read_step_table
from steptune.readers.step import StepRecord

TABLE = """\
| step | timing_s/gen | note | timing_s/step |
|---|---|---|---|
| 10 | 120.5 | warm | 235.5 s |
| step 11 | 1,122.5 | | 1 m 5 s |
| mean | 600 | | 300 |
| 12 | 120.5 | | 235.5 |
"""


def steps(text: str) -> list[StepRecord]:
    known = framework("verl").known_key
    return list(read_step_table(enumerate(text.splitlines(), start=1), "post.txt", known))


def test_rows_under_a_step_heading_are_steps_until_another_row_comes() -> None:
    first, second = steps(TABLE)
    assert (first.number, first.value("timing_s/gen"), first.value("timing_s/step")) == (10, 120.5, 235.5)
    assert (second.number, second.value("timing_s/gen"), second.value("timing_s/step")) == (11, 1122.5, 65.0)
    assert first.readings["timing_s/gen"].line == 3


def test_headings_without_a_unit_and_tables_of_runs_are_no_steps() -> None:
    assert not steps("| step | Total | Train |\n|---|---|---|\n| 1 | 360.1 | 108.6 |\n")
    assert not steps("| run | timing_s/step |\n|---|---|\n| 1 | 360.1 |\n")
