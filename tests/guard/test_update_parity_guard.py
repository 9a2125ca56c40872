import math
from typing import Any

import pytest

from steptune.core.verdict import Judgement, Verdict
from steptune.guard.update_parity import ROUNDING_DISTANCE, check_update_parity, probe_gap

NORMS = (0.41, 0.38, 0.44)


def judged(**changed: Any) -> Verdict:
    replay = {
        "distance": 2e-4,
        "shuffled_band": [1.5e-4, 1.2e-4],
        "probe_gap": 3e-5,
        "probe_band": [2e-5, 3e-5],
        "candidate_grad_norms": NORMS,
        "baseline_grad_norms": NORMS,
    }
    return check_update_parity(**{**replay, **changed})


def test_a_distance_inside_the_rounding_band_passes() -> None:
    verdict = judged()
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == 2e-4


def test_the_band_is_fifteen_times_the_largest_shuffle() -> None:
    # 15 x 1.5e-4 = 2.25e-3
    assert judged(distance=2.2e-3).judgement is Judgement.PASS
    assert judged(distance=2.3e-3).judgement is Judgement.FAIL


def test_a_halved_gradient_fails_by_distance_and_norm_under_plain_descent() -> None:
    # half the gradient moves the weights half as far: ||0.5 d - d|| / ||d|| = 0.5
    verdict = judged(distance=0.5, candidate_grad_norms=[n / 2 for n in NORMS])
    assert verdict.judgement is Judgement.FAIL
    assert "distance 0.5" in verdict.because
    assert "differ by up to 0.5" in verdict.because


def test_a_halved_gradient_fails_by_its_norm_where_adam_hides_it_from_the_weights() -> None:
    verdict = judged(candidate_grad_norms=[n / 2 for n in NORMS])
    assert verdict.judgement is Judgement.FAIL
    assert "gradient norms" in verdict.because


def test_rounding_of_the_norms_passes() -> None:
    assert judged(candidate_grad_norms=[n * (1 + 5e-4) for n in NORMS]).judgement is Judgement.PASS
    assert judged(candidate_grad_norms=[n * (1 + 2e-3) for n in NORMS]).judgement is Judgement.FAIL


def test_another_number_of_updates_fails() -> None:
    verdict = judged(candidate_grad_norms=NORMS[:2])
    assert verdict.judgement is Judgement.FAIL
    assert "2 updates where the baseline makes 3" in verdict.because


def test_a_bit_identical_replay_passes_even_where_shuffling_moves_nothing() -> None:
    assert judged(distance=0.0, shuffled_band=[0.0, 0.0]).judgement is Judgement.PASS
    assert judged(distance=1e-3, shuffled_band=[0.0, 0.0]).judgement is Judgement.INCONCLUSIVE


def test_a_distance_of_float32s_own_rounding_passes_whatever_the_band() -> None:
    # rows that are sorted by length stay where they are when they are shuffled, and show no rounding
    assert judged(distance=0.9 * ROUNDING_DISTANCE, shuffled_band=[0.0, 1e-9]).judgement is Judgement.PASS
    assert judged(distance=1.1 * ROUNDING_DISTANCE, shuffled_band=[1e-9, 1e-9]).judgement is Judgement.FAIL


def test_a_probe_outside_its_band_fails_although_the_parameters_are_close() -> None:
    # 15 x 3e-5 = 4.5e-4
    assert judged(probe_gap=4.4e-4).judgement is Judgement.PASS
    verdict = judged(probe_gap=4.6e-4)
    assert verdict.judgement is Judgement.FAIL
    assert "probe gap" in verdict.because


def test_a_probe_gap_of_float32s_own_rounding_passes_whatever_the_band() -> None:
    assert judged(probe_gap=9e-6, probe_band=[0.0, 1e-8]).judgement is Judgement.PASS
    assert judged(probe_gap=1.1e-5, probe_band=[1e-8, 1e-8]).judgement is Judgement.FAIL


def test_the_probe_gap_is_a_root_mean_square_and_unknown_where_probes_do_not_match() -> None:
    # squares 0.09 and 0.16, their mean 0.125
    assert probe_gap([-1.0, -2.0], [-1.3, -1.6]) == pytest.approx(0.125**0.5)
    assert probe_gap([-1.0], [-1.0, -2.0]) is None
    assert probe_gap([], []) is None
    assert probe_gap([math.nan], [-1.0]) is None


BROKEN: dict[str, dict[str, Any]] = {
    "no distance": {"distance": None},
    "NaN distance": {"distance": math.nan},
    "negative distance": {"distance": -1e-4},
    "one shuffle": {"shuffled_band": [1e-4]},
    "no band": {"shuffled_band": []},
    "NaN in the band": {"shuffled_band": [1e-4, math.nan]},
    "no probe": {"probe_gap": None},
    "NaN in the probe's band": {"probe_band": [1e-5, math.nan]},
    "a shuffle without a probe": {"probe_band": [1e-5, None]},
    "no norms": {"candidate_grad_norms": [], "baseline_grad_norms": []},
    "NaN norm": {"candidate_grad_norms": [0.41, math.nan, 0.44]},
    "zero gradient": {"baseline_grad_norms": [0.0, 0.0, 0.0], "candidate_grad_norms": [0.0, 0.0, 0.0]},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_missing_or_meaningless_replays_are_inconclusive(broken: dict[str, Any]) -> None:
    assert judged(**broken).judgement is Judgement.INCONCLUSIVE


def test_an_update_without_a_gradient_is_equal_where_both_have_none_and_a_fault_where_one_has() -> None:
    quiet = [0.0, 0.38, 0.0]
    assert judged(baseline_grad_norms=quiet, candidate_grad_norms=quiet).judgement is Judgement.PASS
    assert judged(baseline_grad_norms=quiet, candidate_grad_norms=[0.2, 0.38, 0.0]).judgement is Judgement.FAIL
    assert judged(baseline_grad_norms=quiet, candidate_grad_norms=[0.0, 0.19, 0.0]).judgement is Judgement.FAIL
