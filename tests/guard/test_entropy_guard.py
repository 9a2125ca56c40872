import math
from typing import Any

import pytest
from observation_factory import steps, steps_with

from steptune.core.verdict import Judgement
from steptune.guard.entropy_guard import check_entropy


def test_equal_entropy_and_gradient_pass() -> None:
    verdict = check_entropy(steps(entropy=0.48, grad_norm=0.35), steps())
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == pytest.approx(0.96)


def test_a_collapsed_entropy_fails() -> None:
    verdict = check_entropy(steps(entropy=0.001), steps())
    assert verdict.judgement is Judgement.FAIL
    assert "entropy 0.002 times" in verdict.because


@pytest.mark.parametrize("grad_norm", [0.01, 3.0])
def test_a_vanishing_or_exploding_gradient_fails(grad_norm: float) -> None:
    verdict = check_entropy(steps(grad_norm=grad_norm), steps())
    assert verdict.judgement is Judgement.FAIL
    assert "gradient norm" in verdict.because


BROKEN: dict[str, dict[str, Any]] = {
    "no entropy": {"entropy": None},
    "NaN entropy": {"entropy": math.nan},
    "no gradient norm": {"grad_norm": None},
    "NaN gradient norm": {"grad_norm": math.nan},
    "too few steps": {"count": 3},
    "no steps": {"count": 0},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_missing_or_broken_metrics_are_inconclusive_in_either_arm(broken: dict[str, Any]) -> None:
    assert check_entropy(steps(**broken), steps()).judgement is Judgement.INCONCLUSIVE
    assert check_entropy(steps(), steps(**broken)).judgement is Judgement.INCONCLUSIVE


def test_a_baseline_without_entropy_or_gradient_shows_nothing() -> None:
    assert check_entropy(steps(entropy=0.0), steps(entropy=0.0)).judgement is Judgement.INCONCLUSIVE
    assert check_entropy(steps(grad_norm=0.0), steps(grad_norm=0.0)).judgement is Judgement.INCONCLUSIVE


def test_a_baseline_most_of_whose_steps_have_no_gradient_is_compared_in_those_that_have() -> None:
    baseline = steps_with("grad_norm", [0.0, 0.3, 0.0, 0.0, 0.4, 0.0, 0.3, 0.0, 0.2, 0.0])
    assert check_entropy(steps_with("grad_norm", [0.0, 0.3, 0.3, 0.3, 0.0, 0.3]), baseline).judgement is Judgement.PASS
    wild = check_entropy(steps_with("grad_norm", [0.0, 2.0, 2.0, 2.0, 2.0]), baseline)
    assert wild.judgement is Judgement.FAIL
    few = check_entropy(steps_with("grad_norm", [0.0, 0.3, 0.3, 0.3, 0.0]), baseline)
    assert few.judgement is Judgement.INCONCLUSIVE


def test_a_gradient_that_vanishes_in_most_steps_of_the_candidate_alone_fails() -> None:
    candidate = steps_with("grad_norm", [0.0, 0.3, 0.0, 0.3, 0.0])
    assert check_entropy(candidate, steps()).judgement is Judgement.FAIL
