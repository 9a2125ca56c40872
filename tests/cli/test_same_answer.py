"""What a terminal, an editor or an operating system does to a whole file changes nothing that is said about it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.answer import answer
from steptune.core.finding import Diagnosis

FIXTURES = Path(__file__).parents[1] / "pasted" / "fixtures"


def windows(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def coloured(data: bytes) -> bytes:
    return b"\n".join(b"\x1b[36m" + line + b"\x1b[0m" if line else line for line in data.split(b"\n"))


def marked(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def said(diagnosis: Diagnosis) -> tuple[object, ...]:
    """Everything but the places: framework, findings and the phase table."""
    rows = [(row.role, row.phase, row.seconds.value) for row in diagnosis.phases]
    return diagnosis.paste.framework, [(f.code, f.title) for f in diagnosis.findings], rows


@pytest.mark.parametrize("change", [windows, coloured, marked])
def test_line_ends_colours_and_byte_order_marks_change_nothing(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "post.txt"
    for fixture in sorted(FIXTURES.glob("*.txt")):
        data = fixture.read_bytes()
        path.write_bytes(data)
        whole = said(answer([path]))
        path.write_bytes(change(data))
        assert said(answer([path])) == whole, fixture.name
