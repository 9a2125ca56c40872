import math

import pytest

from steptune.stats.forecast_error import aa_ratio_error, log_ratio_errors, median_ratio_error


def test_twice_too_long_and_half_as_long_are_equally_wrong() -> None:
    assert log_ratio_errors([2.0, 0.5], [1.0, 1.0]) == pytest.approx([math.log(2), math.log(2)])


def test_the_median_error_is_a_fraction() -> None:
    # factors 1.1, 1/1.2 and 3: the median one is 1.2
    assert median_ratio_error([1.1, 1.0, 3.0], [1.0, 1.2, 1.0]) == pytest.approx(0.2)
    assert median_ratio_error([1.0], [1.0]) == 0.0


def test_the_aa_error_averages_over_as_many_steps_as_a_trial() -> None:
    a = [1.0, 1.2, 1.0, 1.2, 7.0]
    a_prime = [1.2, 1.0, 1.2, 1.0, 7.0]
    # alone every step but the last is off by 1.2, in pairs the two errors cancel; the fifth step is left out
    assert aa_ratio_error(a, a_prime, steps_per_trial=1) == pytest.approx(0.2)
    assert aa_ratio_error(a, a_prime, steps_per_trial=2) == pytest.approx(0.0)


@pytest.mark.parametrize("steps_per_trial", [0, 3])
def test_a_pretended_trial_must_fit(steps_per_trial: int) -> None:
    with pytest.raises(ValueError, match="1 to 2 steps"):
        aa_ratio_error([1.0, 1.0], [1.0, 1.0], steps_per_trial=steps_per_trial)


@pytest.mark.parametrize("broken", [0.0, math.nan, math.inf])
def test_a_broken_forecast_has_no_error(broken: float) -> None:
    with pytest.raises(ValueError, match=r"finite|above zero"):
        median_ratio_error([broken], [1.0])


def test_no_forecasts_have_no_median() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        median_ratio_error([], [])
