import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.reward import check_reward

START = [0.30, 0.31, 0.29, 0.30, 0.30]
BASELINE = [0.50, 0.52, 0.49, 0.51, 0.50]
MARGIN = 0.03


def judged(drop: float = 0.0, **changed: Any) -> Verdict:
    jitter = (0.004, -0.006, 0.002, -0.003, 0.003)
    runs: dict[str, Any] = {
        "start_S": START,
        "baseline_S": BASELINE,
        "candidate_S": [b - drop + j for b, j in zip(BASELINE, jitter, strict=True)],
        "margin": MARGIN,
    }
    return check_reward(**{**runs, **changed})


def test_equal_rewards_pass_and_say_the_smallest_drop_they_could_have_seen() -> None:
    verdict = judged()
    assert verdict.judgement is Judgement.PASS
    assert verdict.detectable is not None
    # sd of the jitter 0.0043, times (2.132 + 0.941) / sqrt(5)
    assert verdict.detectable.value == pytest.approx(0.0059, abs=2e-4)
    assert verdict.measured is not None
    assert verdict.measured.n == 5


def test_a_drop_beyond_the_margin_fails() -> None:
    assert judged(drop=0.06).judgement is Judgement.FAIL


def test_a_drop_at_the_margin_is_inconclusive() -> None:
    verdict = judged(drop=0.03)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "reaches below -0.03" in verdict.because


def test_noisy_runs_are_inconclusive_not_a_pass() -> None:
    noisy = [0.55, 0.45, 0.52, 0.42, 0.58]
    verdict = judged(candidate_S=noisy)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.detectable is not None
    assert verdict.detectable.value > MARGIN


def test_pairs_that_agree_by_luck_but_could_not_have_seen_the_margin_do_not_pass() -> None:
    # mean +0.02, sd 0.0255: interval from -0.012, smallest detectable drop 3.073 * 0.0255 / sqrt(5) = 0.035
    verdict = judged(candidate_S=[b + d for b, d in zip(BASELINE, (0.05, -0.01, 0.04, 0.0, 0.02), strict=True)])
    assert verdict.measured is not None
    assert verdict.measured.low is not None
    assert verdict.measured.low > -MARGIN
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "is the smallest these pairs could see" in verdict.because


def test_two_runs_that_learn_nothing_are_not_evidence() -> None:
    flat = [s + 0.01 for s in START]
    verdict = judged(baseline_S=flat, candidate_S=flat)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "learn nothing are not evidence" in verdict.because


def test_a_proven_fall_fails_even_where_the_baseline_learns_nothing() -> None:
    assert judged(baseline_S=START, candidate_S=[s - 0.2 for s in START]).judgement is Judgement.FAIL


def test_three_pairs_are_enough_and_two_are_not() -> None:
    lists = {"start_S": START, "baseline_S": BASELINE, "candidate_S": BASELINE}
    assert judged(**{name: values[:3] for name, values in lists.items()}).judgement is Judgement.PASS
    assert judged(**{name: values[:2] for name, values in lists.items()}).judgement is Judgement.INCONCLUSIVE


@pytest.mark.parametrize("name", ["start_S", "baseline_S", "candidate_S"])
@pytest.mark.parametrize("values", [[0.5, 0.5, math.nan, 0.5, 0.5], [0.5] * 4, []])
def test_broken_or_incomplete_pairs_are_inconclusive(name: str, values: list[float]) -> None:
    assert judged(**{name: values}).judgement is Judgement.INCONCLUSIVE


def test_a_true_drop_of_the_margin_passes_in_at_most_2_5_percent_of_draws() -> None:
    rng = random.Random(12)
    passes = 0
    for _ in range(1000):
        candidate = [b - MARGIN + rng.gauss(0, 0.01) for b in BASELINE]
        passes += judged(candidate_S=candidate).judgement is Judgement.PASS
    assert passes / 1000 <= 0.04


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=5))
def test_pass_and_fail_mean_that_the_whole_interval_is_on_one_side(candidate: list[float]) -> None:
    verdict = judged(candidate_S=candidate)
    assert verdict.measured is not None
    low, high = verdict.measured.low, verdict.measured.high
    assert low is not None
    assert high is not None
    assert (verdict.judgement is Judgement.PASS) == (low > -MARGIN)
    assert (verdict.judgement is Judgement.FAIL) == (high < -MARGIN)
