import math
from typing import Any

import pytest
from observation_factory import gap, stale_steps, step, steps

from steptune.core.profile import GapStats, LagStats
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.off_policy import check_off_policy


def judged(candidate: list[Observation], **changed: Any) -> Verdict:
    terms = {"max_staleness": 1, "own_lag": 0, "has_correction": True, "allow_corrections": True}
    return check_off_policy(candidate, **{**terms, **changed})


def test_an_allowed_corrected_healthy_lag_passes_and_is_reported_as_observed() -> None:
    verdict = judged(stale_steps())
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == 1


def test_fresh_samples_pass_without_a_correction_and_without_a_gap_by_lag() -> None:
    assert judged(steps(), max_staleness=0, has_correction=False, allow_corrections=False).judgement is Judgement.PASS


def test_an_observed_lag_above_the_owners_limit_fails_whatever_the_configuration_says() -> None:
    verdict = judged([*stale_steps(7), *stale_steps(1, lag=2)])
    assert verdict.judgement is Judgement.FAIL
    assert "2 updates behind" in verdict.because


def test_the_algorithms_own_lag_is_not_counted_against_the_owner() -> None:
    # two updates per rollout batch: the second trains on tokens one update old, in the baseline as well
    candidate = stale_steps(lag=1)
    own = {"max_staleness": 0, "has_correction": False, "allow_corrections": False}
    assert judged(candidate, own_lag=1, **own).judgement is Judgement.PASS
    assert judged(candidate, own_lag=0, **own).judgement is Judgement.FAIL


def test_how_far_a_batchs_own_updates_move_the_policy_is_not_staleness() -> None:
    far = gap(0.2, k1=0.15)
    assert judged(stale_steps(lag=1, stats=far), own_lag=1).judgement is Judgement.PASS
    assert judged(stale_steps(lag=2, stats=far), own_lag=1).judgement is Judgement.FAIL
    not_a_number = stale_steps(lag=1, stats=gap(math.nan))
    assert judged(not_a_number, own_lag=1).judgement is Judgement.INCONCLUSIVE


def test_a_lag_without_a_correction_fails() -> None:
    verdict = judged(stale_steps(), has_correction=False)
    assert verdict.judgement is Judgement.FAIL
    assert "without a correction" in verdict.because


def test_a_correction_that_the_owner_does_not_allow_fails() -> None:
    verdict = judged(stale_steps(), allow_corrections=False)
    assert verdict.judgement is Judgement.FAIL
    assert "allow_corrections" in verdict.because


SICK = {
    "k1": (gap(0.2, k1=0.15), "k1 0.15"),
    "negative k1": (gap(0.2, k1=-0.15), "k1 -0.15"),
    "ESS": (gap(0.2, ess_frac=0.25), "ESS 0.25"),
    # mean weight = k3 + 1 - k1 = 1.3 + 1 - 0.05
    "mean weight": (gap(1.3, k1=0.05, ess_frac=0.4), "mean weight 2.25"),
}


@pytest.mark.parametrize(("sick", "because"), SICK.values(), ids=SICK.keys())
def test_one_unhealthy_gap_fails_and_is_named(sick: GapStats, because: str) -> None:
    verdict = judged([*stale_steps(7), *stale_steps(1, stats=sick)])
    assert verdict.judgement is Judgement.FAIL
    assert because in verdict.because
    assert "1 of 8" in verdict.because


def _lagged(lag_max: int, *measured: int) -> Observation:
    return step(lag_max=lag_max, off_policy=tuple(LagStats(lag=lag, gap=gap()) for lag in measured))


BROKEN = {
    "gap missing": _lagged(1),
    "oldest lag not measured": _lagged(2, 1),
    "measured lag beyond the oldest": _lagged(1, 1, 3),
    "negative lag": _lagged(-1),
    "NaN": stale_steps(1, stats=gap(math.nan))[0],
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_missing_or_impossible_gaps_are_inconclusive(broken: Observation) -> None:
    assert judged([*stale_steps(7), broken], max_staleness=2).judgement is Judgement.INCONCLUSIVE


def test_too_few_steps_are_inconclusive() -> None:
    assert judged(stale_steps(3)).judgement is Judgement.INCONCLUSIVE
    assert judged([]).judgement is Judgement.INCONCLUSIVE


@pytest.mark.parametrize(("worst", "says"), SICK.values(), ids=SICK.keys())
def test_a_gap_that_a_stale_baseline_shows_too_is_the_baselines_sickness_and_no_pass(
    worst: GapStats, says: str
) -> None:
    candidate, own = stale_steps(stats=worst), {"max_staleness": 1, "own_lag": 0}
    terms: dict[str, Any] = {**own, "has_correction": True, "allow_corrections": True}
    verdict = check_off_policy(candidate, stale_steps(stats=worst), **terms)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.because.startswith("the baseline itself is over the bounds")
    assert says in verdict.because
    assert check_off_policy(candidate, stale_steps(), **terms).judgement is Judgement.FAIL, "a healthy baseline"
    assert check_off_policy(candidate, steps(), **terms).judgement is Judgement.FAIL, "one that is not stale"


def test_a_gap_beyond_a_sick_baselines_own_range_is_the_changes_fault() -> None:
    terms: dict[str, Any] = {"max_staleness": 1, "own_lag": 0, "has_correction": True, "allow_corrections": True}
    worse, sick = stale_steps(stats=gap(0.4, k1=0.3)), stale_steps(stats=gap(0.2, k1=0.15))
    assert check_off_policy(worse, sick, **terms).judgement is Judgement.FAIL
