import math

import pytest
from forecast_cases import change, learnt, noise_floor
from hypothesis import given
from hypothesis import strategies as st

from steptune.forecast.residual import (
    MIN_NOISE_SD,
    PRIOR_MOVE_SD,
    PRIOR_TRIALS,
    UNKNOWN_NOISE_SD,
    learn,
    noise_sd,
)

NOISE = 0.02


def test_without_trials_nothing_is_corrected() -> None:
    residuals = learn((), NOISE)
    assert residuals.log_correction(change(layout="packed")) == 0
    assert residuals.variance(change(layout="packed", threads=1)) == pytest.approx(2 * PRIOR_MOVE_SD**2)


def test_one_trial_of_one_move_shrinks_as_the_formula_says() -> None:
    # v = (4 x 0.06² + r²) / 5, correction = v / (v + 0.02²) x r
    r = math.log(0.9 / 0.8)
    var = (PRIOR_TRIALS * PRIOR_MOVE_SD**2 + r**2) / (PRIOR_TRIALS + 1)
    residuals = learn((learnt(0.8, 0.9, layout="packed"),), NOISE)
    assert residuals.log_correction(change(layout="packed")) == pytest.approx(var / (var + NOISE**2) * r)
    assert residuals.variance(change(layout="packed")) == pytest.approx(var * NOISE**2 / (var + NOISE**2))


def test_only_candidates_that_share_a_move_are_corrected() -> None:
    residuals = learn((learnt(0.8, 0.9, layout="packed"),), NOISE)
    assert residuals.log_correction(change(layout="sorted")) == 0
    assert residuals.log_correction(change(layout="packed", threads=1)) > 0


def test_a_combinations_error_is_shared_out_among_its_moves() -> None:
    residuals = learn((learnt(0.5, 0.6, layout="packed", threads=1),), NOISE)
    both = residuals.log_correction(change(layout="packed", threads=1))
    assert residuals.log_correction(change(layout="packed")) == pytest.approx(both / 2)
    assert 0 < both < math.log(0.6 / 0.5)


def test_two_trials_tell_two_moves_apart() -> None:
    history = (learnt(0.8, 0.9, a=1), learnt(0.64, 0.72, a=1, b=1))
    residuals = learn(history, 1e-4)
    assert residuals.log_correction(change(a=1)) == pytest.approx(math.log(0.9 / 0.8), rel=0.01)
    assert residuals.log_correction(change(b=1)) == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_broken_trial_teaches_nothing(bad: float) -> None:
    residuals = learn((learnt(0.8, bad, a=1), learnt(bad, 0.8, a=1)), NOISE)
    assert residuals.trials == ()
    assert residuals.log_correction(change(a=1)) == 0


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcde"), min_size=1), st.floats(0.3, 3)), max_size=8))
def test_a_trial_never_makes_its_own_moves_less_certain_than_the_prior(trials: list) -> None:
    residuals = learn([learnt(1.0, ratio, **dict.fromkeys(moves, 1)) for moves, ratio in trials], NOISE)
    for moves, _ in trials:
        tried = change(**dict.fromkeys(moves, 1))
        assert 0 <= residuals.variance(tried) <= residuals.prior_var * len(moves) * (1 + 1e-9)


def test_a_model_that_missed_is_believed_less_about_moves_it_has_not_seen() -> None:
    hit, missed = learn((learnt(0.8, 0.8, a=1),), NOISE), learn((learnt(0.8, 1.2, a=1),), NOISE)
    assert hit.variance(change(b=1)) < PRIOR_MOVE_SD**2 < missed.variance(change(b=1))


def test_the_noise_of_a_ratio_comes_from_both_floors() -> None:
    # between 1 %, within 2 % over 8 steps a side: 0.02 x sqrt(2/16) = 0.00707
    assert noise_sd(noise_floor(0.02, 0.01)) == pytest.approx(math.hypot(0.01, 0.02 * math.sqrt(2 / 16)))
    assert noise_sd(noise_floor(0.0, 0.0)) == MIN_NOISE_SD


def test_an_unknown_or_broken_noise_floor_is_not_zero_noise() -> None:
    assert noise_sd(None) == UNKNOWN_NOISE_SD
    assert noise_sd(noise_floor(math.nan, 0.01)) == UNKNOWN_NOISE_SD
