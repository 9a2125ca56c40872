"""`bench/search.py` in pieces: chunks, and what several of them found in one file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "search"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from search import OURS, Piece, chunk, merge, pieces, read, work

ONE: Piece = ("overlap", "error 5 %", OURS, 3)


def test_a_chunk_is_the_searches_that_it_names() -> None:
    assert chunk("overlap/error 5 %/ours/3-3") == [ONE]
    assert len(chunk("overlap/all/ours/0-1")) == 10
    assert {shape for shape, *_ in chunk("all/error 10 %/random/0-0")} >= {"overlap", "deceptive", "large"}


def test_ours_comes_before_every_peer() -> None:
    arms = [arm for *_, arm, _ in pieces(["overlap", "deceptive"], range(3))]
    assert arms == sorted(arms, key=list(dict.fromkeys(arms)).index)
    assert arms[0] == OURS


def test_files_are_merged_without_counting_a_search_twice(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for part in parts:
        assert work([ONE], 1.0, part) == 0
    whole = tmp_path / "whole.jsonl"
    assert merge(parts, whole) == 1
    assert merge(parts, whole) == 0
    assert list(read(whole)) == [ONE]
    # a virtual clock: the same search is the same anywhere
    assert read(parts[0]) == read(parts[1])
