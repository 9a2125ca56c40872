"""Whatever happens to a file, reading it is no error, and no step time comes from nowhere."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_logs import FIXTURES, assert_is_sound

from steptune.core.paste import Paste
from steptune.readers.read_paste import read_paste

SEEDS = {path.name: path.read_bytes() for path in sorted(FIXTURES.glob("*.txt"))}
SEEDS["jsonl"] = b"".join(
    b'{"step": %d, "data": {"timing_s/step": 4%d.5, "timing_s/gen": 30.25, "critic/score/mean": NaN}}\n' % (n, n)
    for n in range(1, 7)
)
SEEDS["csv"] = b'"Step","a - timing/train/total_step_time","a - train/reward"\n' + b"".join(
    b"%d,66.5%d,0.25\n" % (n, n) for n in range(1, 7)
)
COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


def truncated(text: bytes, draw: st.DataObject) -> bytes:
    start, end = sorted(draw.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    return text[start:end]


def spliced(text: bytes, draw: st.DataObject) -> bytes:
    other = SEEDS[draw.draw(st.sampled_from(sorted(SEEDS)))]
    at, cut = draw.draw(st.integers(0, len(text))), draw.draw(st.integers(0, len(other)))
    return text[:at] + other[cut:] + text[at:]


def recoloured(text: bytes, draw: st.DataObject) -> bytes:
    for at in sorted(draw.draw(st.lists(st.integers(0, len(text)), max_size=8)), reverse=True):
        text = text[:at] + b"\x1b[36m" + text[at:]
    return text


def corrupted(text: bytes, draw: st.DataObject) -> bytes:
    found = bytearray(text)
    for at in draw.draw(st.lists(st.integers(0, max(len(text) - 1, 0)), max_size=12)):
        if found:
            found[at] = draw.draw(st.integers(0, 255))
    return bytes(found)


def doubled(text: bytes, draw: st.DataObject) -> bytes:
    lines = text.splitlines(keepends=True)
    at = draw.draw(st.integers(0, len(lines)))
    return b"".join([*lines[:at], *lines[max(at - 5, 0) :]])


PRINT_THEIR_STEP = ("verl", "nemo_rl")
"""Frameworks of which no step time is ever derived from other numbers."""

MUTATIONS = (truncated, spliced, recoloured, corrupted, doubled)


def is_printed(value: float, text: bytes) -> bool:
    """Whether ``text`` holds the digits of ``value``: colours, NULs and line breaks may stand between them."""
    plain = re.sub(rb"[\r\n\0]\s*", b"", COLOUR.sub(b"", text))
    spellings = {repr(value), f"{value:g}", *(f"{value:.{n}f}" for n in range(7))}
    numbers = {spelling.encode() for spelling in spellings if float(spelling) == value}
    return any(number in plain for number in numbers)


def check(paste: Paste, text: bytes) -> None:
    times = paste.get_series("step_time")
    values = times.finite() if times else []
    if paste.framework in PRINT_THEIR_STEP:
        assert all(is_printed(value, text) for value in values)
    if paste.profile is not None:
        assert_is_sound(paste.profile)
        seconds = paste.profile.step_time.value
        assert math.isfinite(seconds)
        assert seconds > 0
        if paste.framework in PRINT_THEIR_STEP:
            assert min(values) <= seconds * (1 + 1e-9)
            assert max(values) >= seconds * (1 - 1e-9)


@given(st.sampled_from(sorted(SEEDS)), st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=4), st.data())
@settings(max_examples=100, deadline=None)
def test_a_mutated_file_is_read_and_its_step_times_stand_in_it(
    tmp_path_factory: pytest.TempPathFactory, name: str, mutations: list[object], data: st.DataObject
) -> None:
    text = SEEDS[name]
    for mutation in mutations:
        text = mutation(text, data)  # pyright: ignore[reportCallIssue]
    path: Path = tmp_path_factory.mktemp("mutated") / "input"
    path.write_bytes(text)
    check(read_paste([path]), text)


@pytest.mark.parametrize("unit", ["a/", "1", " ", "- ", "timing_s/", ":", "\r", "/ : ", "step:1 - "])
def test_a_long_line_of_anything_is_read_in_one_pass(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "long"
    path.write_text(
        "".join(f"{head}{unit * (60_000 // len(unit))} : 1\n" for head in ("", "step:1 - ", "# ")) + "end\n"
    )
    assert read_paste([path]).profile is None


def test_digits_that_ran_together_are_no_step_and_no_step_time(tmp_path: Path) -> None:
    path = tmp_path / "digits"
    many = "1" * 5000
    path.write_text(
        f"step:{many} - a/b:1\n= Step {many}/2 =\nstep:3 - timing_s/step:{many} - timing_s/gen:1e400\nend\n"
    )
    assert read_paste([path]).profile is None
    path.write_text('{"step": 1e300, "timing_s/step": 1e308}\n{"step": null, "timing_s/step": -1e308}\n')
    assert read_paste([path]).profile is None
