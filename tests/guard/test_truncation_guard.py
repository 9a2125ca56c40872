import math
from collections.abc import Sequence

import pytest

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.truncation import check_truncation

BASELINE = [0.02, 0.03, 0.02, 0.01]


def judged(candidate: Sequence[float | None], baseline: Sequence[float | None] = tuple(BASELINE)) -> Verdict:
    return check_truncation(baseline_truncated_S=baseline, candidate_truncated_S=candidate)


def test_as_much_truncation_as_the_baseline_passes() -> None:
    verdict = judged([0.02, 0.02, 0.03, 0.02])
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == pytest.approx(0.0025)


def test_less_truncation_passes() -> None:
    assert judged([0.0] * 4, [0.3, 0.32, 0.31, 0.3]).judgement is Judgement.PASS


def test_a_run_that_truncates_nearly_everything_fails() -> None:
    assert judged([0.98, 0.97, 0.98, 0.99]).judgement is Judgement.FAIL


def test_seeds_that_spread_too_far_are_inconclusive() -> None:
    verdict = judged([0.02, 0.15, 0.0, 0.1])
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "too few pairs" in verdict.because


@pytest.mark.parametrize(
    "candidate",
    [[], [0.02, 0.02, 0.02], [0.02, None, 0.02, 0.02], [0.02, math.nan, 0.02, 0.02], [0.0, 1.2, 0, 0], [-0.1] * 4],
)
def test_missing_or_impossible_fractions_are_inconclusive(candidate: list[float | None]) -> None:
    assert judged(candidate).judgement is Judgement.INCONCLUSIVE


def test_two_pairs_are_too_few() -> None:
    assert judged([0.02, 0.02], [0.02, 0.02]).judgement is Judgement.INCONCLUSIVE


def test_a_missing_baseline_is_inconclusive() -> None:
    assert judged(BASELINE, [None] * 4).judgement is Judgement.INCONCLUSIVE
