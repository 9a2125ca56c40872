import math
from collections.abc import Sequence

import pytest

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.reward_rate import check_reward_rate, equal_time_step

EQUAL = (0.50, 0.52, 0.49, 0.51)
END = (0.60, 0.62, 0.59, 0.61)
"""The saved time is worth 0.1 to the baseline."""


def judged(candidate: Sequence[float], equal: Sequence[float | None] = EQUAL, end: Sequence[float] = END) -> Verdict:
    return check_reward_rate(baseline_equal_S=equal, baseline_end_S=end, candidate_S=candidate)


def moved(by: Sequence[float]) -> list[float]:
    return [e + d for e, d in zip(EQUAL, by, strict=True)]


def test_a_faster_step_that_learns_as_much_passes() -> None:
    verdict = judged(END)
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == pytest.approx(0.1)


def test_slower_learning_that_cancels_the_faster_step_fails() -> None:
    # +0.003 (-0.010 to +0.016) where 0.1 was to be had
    verdict = judged(moved([0.0, 0.01, 0.01, -0.008]))
    assert verdict.judgement is Judgement.FAIL
    assert "slower learning cancels" in verdict.because


def test_learning_less_than_the_baseline_in_that_time_fails_whatever_the_time_is_worth() -> None:
    worse = moved([-0.05, -0.06, -0.05, -0.04])
    assert judged(worse).judgement is Judgement.FAIL
    assert judged(worse, end=EQUAL).judgement is Judgement.FAIL


def test_a_part_of_the_gain_that_is_surely_kept_passes() -> None:
    assert judged(moved([0.03, 0.04, 0.03, 0.04])).judgement is Judgement.PASS


def test_too_wide_an_interval_is_inconclusive_and_says_what_it_could_have_seen() -> None:
    verdict = judged(moved([-0.1, 0.2, 0.15, -0.05]))
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.detectable is not None
    assert verdict.detectable.value > 0.1


def test_a_baseline_that_gains_nothing_more_shows_no_difference() -> None:
    verdict = judged(moved([0.001, -0.001, 0.001, -0.001]), end=EQUAL)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "shows no difference" in verdict.because


def test_missing_broken_and_few_pairs_are_inconclusive() -> None:
    assert judged([0.6, 0.6], EQUAL[:2], END[:2]).judgement is Judgement.INCONCLUSIVE
    assert judged(END, EQUAL[:3]).judgement is Judgement.INCONCLUSIVE
    assert judged(END, [None, *EQUAL[1:]]).judgement is Judgement.INCONCLUSIVE
    assert judged([math.nan, *END[1:]]).judgement is Judgement.INCONCLUSIVE


def test_equal_device_time_is_a_step_of_the_baseline_that_exists() -> None:
    assert equal_time_step(30, 0.5) == 15
    assert equal_time_step(30, 0.01) == 1
    assert equal_time_step(30, 1.2) == 30
