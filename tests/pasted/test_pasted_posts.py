from pathlib import Path

import pytest
from expectation import ComparisonExpectation, Expectation, check, check_comparison, load

HERE = Path(__file__).parent
EXPECTED = load(HERE / "expected.toml")


def handed_in(post_id: str, tmp_path: Path) -> Path:
    """Write a post as a user would paste it: without the line that says where it was found."""
    text = (HERE / "fixtures" / f"{post_id}.txt").read_bytes()
    path = tmp_path / f"{post_id}.txt"
    path.write_bytes(b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"# source:")))
    return path


@pytest.mark.parametrize("expected", EXPECTED.post, ids=lambda e: e.id)
def test_the_answer_to_a_post_says_what_it_must_and_claims_nothing_else(expected: Expectation, tmp_path: Path) -> None:
    from steptune.cli.answer import answer
    from steptune.report.diagnosis_text import diagnosis_text

    diagnosis = answer([handed_in(expected.id, tmp_path)])
    faults = check(expected, diagnosis, diagnosis_text(diagnosis))
    assert faults == [], "\n".join([expected.why, *faults])


@pytest.mark.parametrize("expected", EXPECTED.comparison, ids=lambda e: e.id)
def test_a_comparison_says_what_it_must_and_claims_nothing_else(
    expected: ComparisonExpectation, tmp_path: Path
) -> None:
    from steptune.compare.compare import compare
    from steptune.readers.read_paste import read_paste

    a, b = (read_paste([handed_in(post_id, tmp_path)]) for post_id in (expected.a, expected.b))
    faults = check_comparison(expected, compare(a, b))
    assert faults == [], "\n".join([expected.why, *faults])


def test_every_fixture_is_expected_and_every_expectation_has_one() -> None:
    fixtures = {path.stem for path in (HERE / "fixtures").glob("*.txt")}
    named = {post.id for post in EXPECTED.post} | {p for c in EXPECTED.comparison for p in (c.a, c.b)}
    assert fixtures == named
    assert len({post.id for post in EXPECTED.post}) == len(EXPECTED.post) == 44


def test_every_fixture_says_where_it_is_from() -> None:
    for path in (HERE / "fixtures").glob("*.txt"):
        assert path.read_bytes().startswith(b"# source: "), path.name
