from pathlib import Path

from expectation import load

BLIND = Path(__file__).parents[2] / "bench" / "blind"
MAX_POST_BYTES = 300_000
"""A longer log is trimmed in the middle: the repository is no archive."""


def test_the_blind_round_has_thirty_posts_and_ten_longer_logs() -> None:
    expected = load(BLIND / "expected.toml")
    ids = [post.id for post in expected.post] + [c.id for c in expected.comparison]
    assert len(ids) == len(set(ids)) == 40
    assert sum(post_id.startswith("L") for post_id in ids) == 10


def test_every_blind_post_is_there_and_says_where_it_is_from() -> None:
    expected = load(BLIND / "expected.toml")
    named = {post.id for post in expected.post} | {p for c in expected.comparison for p in (c.a, c.b)}
    assert {path.stem for path in (BLIND / "posts").iterdir()} == named
    for path in (BLIND / "posts").iterdir():
        text = path.read_bytes()
        assert text.startswith(b"# source: "), path.name
        assert len(text) <= MAX_POST_BYTES, path.name
