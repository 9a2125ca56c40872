import random

import pytest

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.gap_growth import check_gap_growth

LIMIT = 1e-3


def runs(
    growth: float, *, num_runs: int = 5, num_steps: int = 25, level: float = 2e-5, seed: int = 1
) -> list[list[float]]:
    """k3 that grows by ``growth`` in 8 steps and spreads by 40 % from step to step."""
    rng = random.Random(seed)
    return [
        [level * (1 + growth) ** (i / 8) * rng.lognormvariate(0, 0.4) for i in range(num_steps)]
        for _ in range(num_runs)
    ]


def judged(candidate: list[list[float]], baseline: list[list[float]] | None = None) -> Verdict:
    floor = runs(0.0, seed=2) if baseline is None else baseline
    return check_gap_growth(candidate_k3_SK=candidate, baseline_k3_SK=floor, max_mismatch_k3=LIMIT)


@pytest.mark.parametrize("seed", range(10))
def test_fp8s_growth_is_caught_and_bf16s_is_not(seed: int) -> None:
    assert judged(runs(0.45, seed=10 + seed)).judgement is Judgement.FAIL
    assert judged(runs(0.12, seed=10 + seed)).judgement is Judgement.PASS
    assert judged(runs(0.0, seed=10 + seed)).judgement is Judgement.PASS


def test_what_the_baseline_does_as_well_is_not_the_changes_fault() -> None:
    assert judged(runs(0.45), runs(0.45, seed=2)).judgement is Judgement.PASS


def test_growth_of_rounding_noise_is_not_judged() -> None:
    assert "not judged" in judged(runs(0.45, level=1e-8)).because


@pytest.mark.parametrize("candidate", [runs(0.0, num_runs=2), runs(0.0, num_steps=3), [[], [], [], []]])
def test_too_few_runs_or_steps_are_unknown(candidate: list[list[float]]) -> None:
    assert judged(candidate).judgement is Judgement.INCONCLUSIVE


def test_zeros_among_the_gaps_are_rounding_and_do_not_stop_the_guard() -> None:
    candidate = runs(0.0)
    candidate[0][3] = 0.0
    assert judged(candidate).judgement is Judgement.PASS
