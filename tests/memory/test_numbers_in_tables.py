"""A number with two points, as damaged text has it, is no number and no error."""

import pytest

from steptune.core.paste import Excerpt, ExcerptKind, Paste
from steptune.core.profile import Origin
from steptune.memory.advise import memory_findings

TABLE = ("| Item | ratio=0.5 run | ratio=0.45 run | delta |", "| Free at OOM | {first} GB | 2.91 GB | -3.92 |")


def table(first: str) -> Paste:
    rows = tuple(row.format(first=first) for row in TABLE)
    origin = Origin(path="run.log", line=2, key="table")
    excerpt = Excerpt(kind=ExcerptKind.MEMORY, text=rows[1], context=rows[:1], origin=origin)
    return Paste(paths=("run.log",), excerpts=(excerpt,))


def test_a_sound_table_shows_that_memory_is_not_monotone() -> None:
    assert "memory/not_monotone" in {finding.code for finding in memory_findings(table("6.83"))}


@pytest.mark.parametrize("broken", ["3.14.15", "..", "6.8.3"])
def test_a_broken_number_is_no_finding_and_no_crash(broken: str) -> None:
    assert "memory/not_monotone" not in {finding.code for finding in memory_findings(table(broken))}
