import math

import pytest
from decision_records import forecast, noise, times

from steptune.core.forecast import Forecast
from steptune.decide.stop import can_any_win, cannot_win
from steptune.stats.sequential import sequential_ratio_interval

BROKEN_NOISE = noise().model_copy(update={"within_launch_cv": math.nan})


def test_one_promising_forecast_is_enough_to_go_on() -> None:
    forecasts = [forecast(times(0.9, 0.88, 0.92)), forecast(times(0.45, 0.4, 0.5))]
    assert can_any_win(forecasts, incumbent_ratio=0.6, noise=noise())


def test_a_forecast_counts_by_its_optimistic_end() -> None:
    # 0.58 against the incumbent's 0.6 is a gain of 3.3 %: above a band of 2 %, below one of 5 %
    hopeful = [forecast(times(0.62, 0.58, 0.66))]
    assert can_any_win(hopeful, incumbent_ratio=0.6, noise=noise(0.02))
    assert not can_any_win(hopeful, incumbent_ratio=0.6, noise=noise(0.05))


def test_a_forecast_without_an_interval_counts_by_its_value() -> None:
    assert can_any_win([forecast(times(0.5))], incumbent_ratio=0.6, noise=noise())
    assert not can_any_win([forecast(times(0.6))], incumbent_ratio=0.6, noise=noise())


@pytest.mark.parametrize(
    "hopeless",
    [
        forecast(times(0.3, 0.2, 0.4), refused="no curve for this layout"),
        forecast(times(0.3, 0.2, 0.4), memory_fits=False),
        forecast(times(math.nan, math.nan, math.nan)),
    ],
)
def test_a_forecast_that_is_refused_does_not_fit_or_is_broken_wins_nothing(hopeless: Forecast) -> None:
    assert not can_any_win([hopeless], incumbent_ratio=1.0, noise=noise())


def test_a_forecast_whose_memory_is_too_close_to_call_may_still_be_tried() -> None:
    assert can_any_win([forecast(times(0.3, 0.2, 0.4), memory_fits=None)], incumbent_ratio=1.0, noise=noise())


def test_with_nothing_left_or_a_broken_noise_floor_the_search_stops() -> None:
    assert not can_any_win([], incumbent_ratio=1.0, noise=noise())
    assert not can_any_win([forecast(times(0.3, 0.2, 0.4))], incumbent_ratio=1.0, noise=BROKEN_NOISE)


def test_a_running_trial_is_stopped_only_when_its_best_case_is_inside_the_noise() -> None:
    slow = sequential_ratio_interval([1.3, 1.31, 1.29], [1.0, 1.0, 1.0], max_looks=4)
    unclear = sequential_ratio_interval([1.3, 0.8, 1.1], [1.0, 1.0, 1.0], max_looks=4)
    fast = sequential_ratio_interval([0.7, 0.71, 0.69], [1.0, 1.0, 1.0], max_looks=4)
    assert cannot_win(slow, noise())
    assert not cannot_win(unclear, noise())
    assert not cannot_win(fast, noise())
    assert cannot_win(fast, BROKEN_NOISE)
