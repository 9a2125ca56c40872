"""Real posts, mutated at random: no crash, no hang, no claim from no data. `bench/mutate.py` runs as many as wanted."""

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
NUM_CASES = 2000
"""Cases of seed 0 that run in the suite."""

NUM_PARTS = 4
"""Tests they are split into, so that workers share them."""


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_no_mutated_post_crashes_hangs_or_makes_a_claim_up(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from mutate import run_cases

    failed = run_cases(range(part, NUM_CASES, NUM_PARTS), seed=0, folder=tmp_path)
    assert failed == {}


def test_the_same_case_is_the_same_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from random import Random

    from mutate import load_posts
    from mutations import mutate

    posts = load_posts()
    assert len(posts) > 40
    assert mutate(posts, Random("0/7")) == mutate(posts, Random("0/7"))


def test_the_bench_sees_a_claim_without_timing_a_crash_and_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import mutate
    from steptune.core.estimate import Estimate, Source
    from steptune.core.finding import Diagnosis, Finding, FindingKind, Severity
    from steptune.core.paste import Paste

    ceiling = Estimate(value=1.0, unit="s", source=Source.DERIVED)
    made_up = Finding(
        code="trainer_bound", kind=FindingKind.BOTTLENECK, severity=Severity.WARNING, title="x", ceiling=ceiling
    )
    assert mutate.problems(Diagnosis(paste=Paste(paths=()), findings=(made_up,)), "\x1b[31m") == [
        "control character '\\x1b' in the text",
        "`trainer_bound` names no line of the input",
        "no word that timing is missing",
        "`trainer_bound` has a ceiling without timing",
    ]

    def crash() -> list[str]:
        raise ZeroDivisionError("here")

    assert mutate.timed(crash)[0].startswith("ZeroDivisionError at test_mutations.py:")
    monkeypatch.setattr(mutate, "LIMIT_S", 0.05)

    def hang() -> list[str]:
        while True:
            pass

    assert mutate.timed(hang)[0].startswith("HungError")


def test_the_bench_sees_a_time_that_the_input_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from backed import unbacked_times
    from steptune.cli.answer import answer

    post = BENCH.parent / "tests" / "pasted" / "fixtures" / "V10.txt"
    diagnosis = answer([post])
    assert unbacked_times(diagnosis, post.read_bytes()) == []
    elsewhere = post.read_bytes().replace(b"74.020", b"75.020")
    assert unbacked_times(diagnosis, elsewhere) == ["`timing_s/gen` is said to be 74.02 s"]
