import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observation_factory import gap, steps, steps_with, steps_with_k3

from steptune.core.trial import Observation, QueueCount, QueueStats
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.mismatch import check_mismatch

LIMIT = 1e-3


def judged(candidate: list[Observation], baseline: list[Observation] | None = None) -> Verdict:
    return check_mismatch(candidate, steps() if baseline is None else baseline, max_mismatch_k3=LIMIT)


def test_a_small_steady_gap_passes_and_the_median_is_reported() -> None:
    verdict = judged(steps_with_k3([1e-5, 3e-5, 2e-5, 9e-5, 1e-5]))
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == 2e-5
    assert (verdict.measured.low, verdict.measured.high, verdict.measured.n) == (1e-5, 9e-5, 5)


def test_a_gap_above_the_limit_fails() -> None:
    # fp8 rollout of a 35B model, measured by NeMo RL: 0.0024 to 0.0031
    verdict = judged(steps_with_k3([2.4e-3, 3.1e-3, 2.6e-3, 2.5e-3]))
    assert verdict.judgement is Judgement.FAIL
    assert "median k3 0.0026" in verdict.because


def test_one_wild_step_does_not_move_the_level() -> None:
    assert judged(steps_with_k3([1e-5, 1e-5, 5e-2, 1e-5, 1e-5])).judgement is Judgement.PASS


def test_a_mean_multiplicative_error_above_five_percent_fails_even_with_a_small_k3() -> None:
    verdict = judged(steps(mismatch=gap(mult_prob_error=1.06)))
    assert verdict.judgement is Judgement.FAIL
    assert "exp|Δ| 1.06" in verdict.because


def test_a_high_baseline_error_leaves_room_of_two_percent_and_no_more() -> None:
    high_baseline = steps(mismatch=gap(mult_prob_error=1.08))
    assert judged(steps(mismatch=gap(mult_prob_error=1.095)), high_baseline).judgement is Judgement.PASS
    assert judged(steps(mismatch=gap(mult_prob_error=1.105)), high_baseline).judgement is Judgement.FAIL


def test_one_step_with_a_heavy_tail_fails_although_the_level_is_fine() -> None:
    gaps = [gap()] * 7 + [gap(ess_frac=0.2)]
    verdict = judged(steps_with("mismatch", gaps))
    assert verdict.judgement is Judgement.FAIL
    assert "ESS 0.2" in verdict.because


def test_growth_of_45_percent_in_8_steps_fails_from_a_fine_start() -> None:
    # report V29: fp8 tensorwise grows 45 % in 8 steps, bf16 12 % and is fine
    fp8 = steps_with_k3([2e-4 * (1 + 0.45 * i / 8) for i in range(12)])
    bf16 = steps_with_k3([2e-4 * (1 + 0.12 * i / 8) for i in range(12)])
    assert judged(fp8).judgement is Judgement.FAIL
    assert "grows" in judged(fp8).because
    assert judged(bf16).judgement is Judgement.PASS


def test_growth_that_the_baseline_shows_as_well_is_not_the_candidates_fault() -> None:
    growing = steps_with_k3([2e-4 * (1 + 0.45 * i / 8) for i in range(12)])
    assert judged(growing, growing).judgement is Judgement.PASS


def test_growth_far_below_the_limit_is_rounding() -> None:
    assert judged(steps_with_k3([1e-12 * 2**i for i in range(8)])).judgement is Judgement.PASS


def test_bit_identical_arms_with_a_gap_of_zero_pass() -> None:
    identical = steps(mismatch=gap(0.0, mult_prob_error=1.0, ess_frac=1.0))
    assert judged(identical, identical).judgement is Judgement.PASS
    assert judged(steps(), identical).judgement is Judgement.PASS


def test_a_baseline_over_the_limit_is_said_so_and_its_own_level_is_no_candidates_fault() -> None:
    over = steps_with_k3([5e-3] * 6)
    also_over, below, worse = judged(over, over), judged(steps(), over), judged(steps_with_k3([6e-3] * 6), over)
    assert also_over.judgement is Judgement.INCONCLUSIVE
    assert below.judgement is Judgement.INCONCLUSIVE
    assert worse.judgement is Judgement.FAIL
    assert all("the baseline itself is over the limit" in v.because for v in (also_over, below, worse))


def test_one_token_of_464_times_its_probability_fails_behind_a_flat_level() -> None:
    # N19: ln 464 = 6.14 nat; the limit is ln 5 = 1.61
    verdict = judged(steps_with("mismatch", [gap()] * 7 + [gap(max_abs=6.14)]))
    assert verdict.judgement is Judgement.FAIL
    assert "worst token off by 6.14 nat" in verdict.because
    assert judged(steps(mismatch=gap(max_abs=1.6))).judgement is Judgement.PASS


def test_a_baseline_with_wild_tokens_leaves_room_of_twice_its_worst_and_no_more() -> None:
    wild = steps(mismatch=gap(max_abs=2.0))
    assert judged(steps(mismatch=gap(max_abs=3.9)), wild).judgement is Judgement.PASS
    assert judged(steps(mismatch=gap(max_abs=4.1)), wild).judgement is Judgement.FAIL


def test_a_sample_size_that_the_baseline_has_lost_too_is_not_the_candidates_fault_and_no_pass() -> None:
    lost = steps(mismatch=gap(ess_frac=0.2))
    assert judged(lost, lost).judgement is Judgement.INCONCLUSIVE
    assert judged(steps(mismatch=gap(ess_frac=0.1)), lost).judgement is Judgement.FAIL


def test_router_agreement_is_held_against_the_baselines_own() -> None:
    noisy = steps_with("router_agreement_frac", [0.93, 0.95, 0.94, 0.96])
    assert judged(steps(4, router_agreement_frac=0.921), noisy).judgement is Judgement.PASS
    drifted = judged(steps(4, router_agreement_frac=0.919), noisy)
    assert drifted.judgement is Judgement.FAIL
    assert "router agreement 0.919" in drifted.because


@pytest.mark.parametrize("agreement", [None, math.nan, 1.2])
def test_router_agreement_that_the_candidate_lacks_or_that_is_no_fraction_is_inconclusive(
    agreement: float | None,
) -> None:
    known, broken = steps(router_agreement_frac=0.99), steps(router_agreement_frac=agreement)
    assert judged(broken, known).judgement is Judgement.INCONCLUSIVE


def test_a_candidate_that_begins_to_record_routes_has_no_floor_to_be_held_against() -> None:
    assert judged(steps(router_agreement_frac=0.6), steps()).judgement is Judgement.PASS
    half = steps_with("router_agreement_frac", [0.99, None, 0.99, 0.99])
    assert judged(steps(router_agreement_frac=0.99), half).judgement is Judgement.INCONCLUSIVE


BROKEN = {
    "missing in one step": [gap()] * 5 + [None],
    "missing everywhere": [None] * 6,
    "too few steps": [gap()] * 3,
    "no steps": [],
    "NaN k3": [gap()] * 5 + [gap(math.nan)],
    "NaN worst token": [gap()] * 5 + [gap(max_abs=math.nan)],
    "infinite error": [gap()] * 5 + [gap(mult_prob_error=math.inf)],
    "negative k3": [gap()] * 5 + [gap(-0.01)],
    "error below one": [gap()] * 5 + [gap(mult_prob_error=0.6)],
    "ESS of zero": [gap()] * 5 + [gap(ess_frac=0.0)],
    "no tokens": [gap()] * 5 + [gap(num_tokens=0)],
}


@pytest.mark.parametrize("gaps", BROKEN.values(), ids=BROKEN.keys())
def test_missing_broken_or_impossible_gaps_are_inconclusive_in_either_arm(gaps: list[object]) -> None:
    broken = steps_with("mismatch", gaps)
    assert judged(broken).judgement is Judgement.INCONCLUSIVE
    assert "candidate" in judged(broken).because
    assert judged(steps(), broken).judgement is Judgement.INCONCLUSIVE
    assert "baseline" in judged(steps(), broken).because


def test_a_stream_that_skips_versions_is_judged_on_the_steps_that_have_a_gap() -> None:
    count = QueueCount(generated=8, trained=8, dropped=0, buffered=0)
    queue = QueueStats(groups=count, tokens=count, lag_mean=1.0)

    def streamed(gaps: list[object]) -> list[Observation]:
        return [step.model_copy(update={"queue": queue}) for step in steps_with("mismatch", gaps)]

    assert judged(streamed([gap(), None] * 4)).judgement is Judgement.PASS
    few = judged(streamed([gap(), None, None, None] * 2))
    assert few.judgement is Judgement.INCONCLUSIVE
    assert "need 4 steps, got 2" in few.because
    assert judged(streamed([gap(k3=5e-3), None] * 4)).judgement is Judgement.FAIL


@given(st.lists(st.floats(1e-9, 1e-1), min_size=4, max_size=12))
def test_a_pass_always_has_its_median_within_the_limit(k3s: list[float]) -> None:
    verdict = judged(steps_with_k3(k3s))
    assert verdict.measured is not None
    assert verdict.judgement is Judgement.FAIL or verdict.measured.value <= LIMIT


@pytest.mark.parametrize(("k3", "passes"), [(2.9e-4, True), (3.1e-4, False)])
def test_a_change_labelled_none_stays_within_three_times_the_repeats_range(k3: float, passes: bool) -> None:
    baseline = steps_with_k3([5e-5, 7e-5, 1e-4, 6e-5])
    assert judged(steps_with_k3([k3] * 8), baseline).judgement is Judgement.PASS, "far below the owner's limit"
    verdict = check_mismatch(steps_with_k3([k3] * 8), baseline, max_mismatch_k3=LIMIT, is_same_maths=True)
    assert (verdict.judgement is Judgement.PASS) == passes
    assert ("labelled none, but not the same mathematics" in verdict.because) == (not passes)


def test_rounding_far_below_the_limit_is_the_same_mathematics_however_small_the_repeats_is() -> None:
    tiny = steps_with_k3([1e-13] * 8)
    assert check_mismatch(steps_with_k3([9e-6] * 8), tiny, max_mismatch_k3=LIMIT, is_same_maths=True).judgement is (
        Judgement.PASS
    )
