from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.core.errors import ReadError
from steptune.readers.scan.chunks import Chunk, read_chunks
from steptune.readers.scan.pick import FOLLOWING_LINES, MAX_LONE_HITS, LineTally, Needles, all_lines, pick_lines


def chunk(text: str) -> Chunk:
    return Chunk(text=text.encode(), first_line=1, is_edge=False)


def picked(text: str, *needles: bytes) -> list[tuple[int, str]]:
    return list(pick_lines([chunk(text)], Needles(wanted=needles), LineTally()))


def test_a_wanted_line_brings_the_next_ones_and_keeps_its_number() -> None:
    assert FOLLOWING_LINES == 2
    assert picked("a\nb\nx1\nc\nd\ne\n", b"x") == [(3, "x1\n"), (4, "c\n"), (5, "d\n")]


def test_wanted_lines_in_a_row_come_once() -> None:
    assert [number for number, _ in picked("x\nx\na\nx\nb\nc\nd\nx", b"x")] == [1, 2, 3, 4, 5, 6, 8]


def test_states_of_a_progress_bar_are_lines_of_their_own_with_one_number() -> None:
    text = "a\n" + "".join(f"\r{n}%" for n in range(50)) + "\rstep:3\r99%\nb\n"
    assert picked(text, b"step:") == [(2, "step:3\n"), (2, "99%\n"), (3, "b\n")]


def test_windows_line_ends_are_line_ends() -> None:
    assert picked("x\r\ny\r\n", b"x") == [(1, "x\r\n"), (2, "y\r\n")]


def test_literals_at_edges_are_not_looked_for_in_the_middle() -> None:
    needles = Needles(wanted=(b"x",), lone_at_edges=(b"warn",))
    for is_edge, numbers in ((False, [11]), (True, [10, 11])):
        part = Chunk(text=b"warn\nx\n", first_line=10, is_edge=is_edge)
        assert [number for number, _ in pick_lines([part], needles, LineTally())] == numbers


def test_a_lone_line_brings_no_others_and_does_not_take_what_is_owed() -> None:
    needles = Needles(wanted=(b"x",), lone=(b"y",))
    lines = pick_lines([chunk("y1\na\nx2\ny3\nb\nc\ny4\nd\n")], needles, LineTally())
    assert [text.strip() for _, text in lines] == ["y1", "x2", "y3", "b", "y4"]


def test_a_literal_that_is_everywhere_is_given_up_until_the_end_comes() -> None:
    half = MAX_LONE_HITS // 2
    noise = Chunk(text=b"warn\n" * (4 * half), first_line=1, is_edge=False)
    later = Chunk(text=b"warn\nSIGKILL\n", first_line=1 + 4 * half, is_edge=False)
    end = Chunk(text=b"warn\n" * (4 * half) + b"warn: the cause\n", first_line=3 + 4 * half, is_edge=True)
    found = [
        text for _, text in pick_lines([noise, later, end], Needles(wanted=(), lone=(b"SIGKILL", b"warn")), LineTally())
    ]
    assert len(found) == 2 * half + 1 + 2 * half
    assert (found[2 * half], found[-1]) == ("SIGKILL\n", "warn: the cause\n")


@given(st.text("ax\n\r", max_size=80), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_small_chunks_give_the_lines_and_counts_of_a_large_one(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    path = tmp_path_factory.mktemp("chunks") / "log"
    path.write_bytes(text.encode())
    for needles in ((b"x",), (b"",)):
        small, large = LineTally(), LineTally()
        assert list(pick_lines(read_chunks(path, chunk_bytes=size), Needles(wanted=needles), small)) == list(
            pick_lines(read_chunks(path), Needles(wanted=needles), large)
        )
        assert small.num_lines == large.num_lines == text.count("\n") + (text != "" and not text.endswith("\n"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-8"])
def test_every_encoding_gives_the_same_lines(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes("first é\nsecond\n".encode(encoding))
    assert list(all_lines(read_chunks(path))) == [(1, "first é\n"), (2, "second\n")]


def test_nul_bytes_are_taken_out_and_foreign_bytes_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"step:\0\0" + b"1 - caf\xe9\n" + b"b" * 5000)
    assert next(iter(all_lines(read_chunks(path)))) == (1, "step:1 - caf\ufffd\n")


def test_a_line_without_end_is_cut_at_a_space_not_inside_a_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x " + b"123456789 " * 20_000)
    [(_, text)] = all_lines(read_chunks(path))
    assert set(text.split()) == {"x", "123456789"}


def test_what_cannot_be_opened_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="cannot be read"):
        list(read_chunks(tmp_path / "none"))
