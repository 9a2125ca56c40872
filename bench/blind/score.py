"""Scores the product on a set of blind posts: `python bench/blind/score.py OUT.json [--set bench/blind2]`.

Surprise: nothing here is a test that must pass. The first score is committed as it comes out, misses and false claims
named; what failed is then fixed as a kind and the posts become ordinary tests.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "pasted")]

from expectation import FALSE_CLAIM, ComparisonExpectation, Expectation, check, check_comparison, load  # noqa: E402

from steptune.cli.answer import answer  # noqa: E402
from steptune.compare.compare import compare  # noqa: E402
from steptune.core.records import Record  # noqa: E402
from steptune.readers.read_paste import read_paste  # noqa: E402
from steptune.report.diagnosis_text import diagnosis_text  # noqa: E402


class Score(Record):
    """How one answer did: ``Score(id="B07", faults=(), num_false_claims=0, seconds=0.04, why="...")``."""

    id: str
    faults: tuple[str, ...]
    """Empty is right."""
    num_false_claims: int
    seconds: float
    """Wall time of the answer; the first one pays for the imports."""
    why: str


class Scores(Record):
    """The table of one run over all posts."""

    num_posts: int
    num_right: int
    num_false_claims: int
    posts: tuple[Score, ...]


def handed_in(posts: Path, post_id: str, folder: Path) -> Path:
    """Write a post without the line that says where it was found."""
    lines = (posts / f"{post_id}.txt").read_bytes().splitlines(keepends=True)
    path = folder / f"{post_id}.txt"
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b"# source:")))
    return path


def faults_of_post(expected: Expectation, posts: Path, folder: Path) -> list[str]:
    """Return the misses and false claims of one answer."""
    diagnosis = answer([handed_in(posts, expected.id, folder)])
    return check(expected, diagnosis, diagnosis_text(diagnosis))


def faults_of_comparison(expected: ComparisonExpectation, posts: Path, folder: Path) -> list[str]:
    """Return the misses and false claims of one comparison."""
    a, b = (read_paste([handed_in(posts, post_id, folder)]) for post_id in (expected.a, expected.b))
    return check_comparison(expected, compare(a, b))


def scored(expected: Expectation | ComparisonExpectation, posts: Path, folder: Path) -> Score:
    """Answer one post and judge it; a crash is a fault like any other, and recorded."""
    started = time.perf_counter()
    try:
        if isinstance(expected, Expectation):
            faults = faults_of_post(expected, posts, folder)
        else:
            faults = faults_of_comparison(expected, posts, folder)
    except Exception as error:  # noqa: BLE001 - the edge of a benchmark: a crash of the product is a result
        faults = [f"CRASH: {type(error).__name__}: {error}"]
    return Score(
        id=expected.id,
        faults=tuple(faults),
        num_false_claims=sum(fault.startswith(FALSE_CLAIM) for fault in faults),
        seconds=round(time.perf_counter() - started, 3),
        why=expected.why,
    )


def main(out: Path, blind_set: Path) -> None:
    """Score every post and comparison of one set (its `expected.toml` and `posts/`) and write the table."""
    expected = load(blind_set / "expected.toml")
    with tempfile.TemporaryDirectory() as folder:
        rows = [scored(e, blind_set / "posts", Path(folder)) for e in (*expected.post, *expected.comparison)]
    scores = Scores(
        num_posts=len(rows),
        num_right=sum(not row.faults for row in rows),
        num_false_claims=sum(row.num_false_claims for row in rows),
        posts=tuple(sorted(rows, key=lambda row: row.id)),
    )
    out.write_text(scores.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(f"{scores.num_right} of {scores.num_posts} right, {scores.num_false_claims} false claims")
    for row in scores.posts:
        print(f"{row.id:5} {'WRONG' if row.faults else 'right'}")
        print("".join(f"      {fault}\n" for fault in row.faults), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Scores the product on a set of blind posts.")
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--set", dest="blind_set", type=Path, default=HERE, help="the set's folder (bench/blind)")
    given = parser.parse_args()
    main(given.out, given.blind_set)
