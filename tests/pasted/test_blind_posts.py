from itertools import combinations
from pathlib import Path

import pytest
from expectation import load

BENCH = Path(__file__).parents[2] / "bench"
SETS = {"blind": ("L", 40), "blind2": ("M", 40), "blind3": ("N", 45), "blind4": ("O", 40)}
"""Each set's folder, the letter its ten longer logs start with, and how many expectations it holds."""

LONG_LOGS = 10
MAX_POST_BYTES = 900_000
"""A longer log is trimmed in the middle: the repository is no archive. Two logs of the fourth set hold a collapse and a
growth that only show over the whole run."""


@pytest.mark.parametrize(("folder", "long_letter", "count"), [(folder, *rest) for folder, rest in SETS.items()])
def test_a_blind_round_has_its_posts_and_ten_longer_logs(folder: str, long_letter: str, count: int) -> None:
    expected = load(BENCH / folder / "expected.toml")
    ids = [post.id for post in expected.post] + [c.id for c in expected.comparison]
    assert len(ids) == len(set(ids)) == count
    assert sum(post_id.startswith(long_letter) for post_id in ids) == LONG_LOGS


@pytest.mark.parametrize("folder", SETS)
def test_every_blind_post_is_there_and_says_where_it_is_from(folder: str) -> None:
    expected = load(BENCH / folder / "expected.toml")
    named = {post.id for post in expected.post} | {p for c in expected.comparison for p in (c.a, c.b)}
    posts = BENCH / folder / "posts"
    assert {path.stem for path in posts.iterdir()} == named
    for path in posts.iterdir():
        text = path.read_bytes()
        assert text.startswith(b"# source: "), path.name
        assert len(text) < MAX_POST_BYTES, path.name


def test_no_post_of_a_later_blind_round_was_in_an_earlier_one() -> None:
    first_lines = {f: {p.read_bytes().split(b"\n")[0] for p in (BENCH / f / "posts").iterdir()} for f in SETS}
    for earlier, later in combinations(SETS, 2):
        assert not first_lines[earlier] & first_lines[later], (earlier, later)
