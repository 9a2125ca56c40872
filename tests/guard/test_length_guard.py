import math
from collections.abc import Sequence

import pytest

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.length_shift import check_length

BASELINE = (15.0, 15.4, 14.8, 15.1)


def judged(candidate: Sequence[float | None], baseline: Sequence[float | None] = BASELINE) -> Verdict:
    return check_length(baseline_len_S=baseline, candidate_len_S=candidate)


def test_equally_long_answers_pass() -> None:
    assert judged([15.2, 15.3, 14.9, 15.0]).judgement is Judgement.PASS


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_much_shorter_and_much_longer_answers_fail(factor: float) -> None:
    verdict = judged([factor * length for length in BASELINE])
    assert verdict.judgement is Judgement.FAIL
    assert verdict.measured is not None
    assert verdict.measured.value == pytest.approx(factor)


def test_lengths_that_spread_too_far_are_inconclusive() -> None:
    assert judged([15.0, 22.0, 11.0, 15.0]).judgement is Judgement.INCONCLUSIVE


@pytest.mark.parametrize(
    "candidate", [[], [15.0] * 3, [15.0, None, 15.0, 15.0], [15.0, math.nan, 15.0, 15.0], [0.0] * 4]
)
def test_missing_or_impossible_lengths_are_inconclusive(candidate: list[float | None]) -> None:
    assert judged(candidate).judgement is Judgement.INCONCLUSIVE


def test_two_pairs_or_a_missing_baseline_are_inconclusive() -> None:
    assert judged([15.0, 15.0], [15.0, 15.0]).judgement is Judgement.INCONCLUSIVE
    assert judged([15.0] * 4, [None] * 4).judgement is Judgement.INCONCLUSIVE
