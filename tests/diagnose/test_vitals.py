import pytest
from paste_cases import series

from steptune.diagnose.vitals import MAX_TREND_POINTS, falls, growth, recent_median, rises


def test_a_rise_among_noise_is_found_in_a_long_log_too() -> None:
    long = [i / 1000 + (0.3 if i % 2 else 0.0) for i in range(5 * MAX_TREND_POINTS + 3)]
    assert rises(long)
    assert falls([-v for v in long])
    assert not falls(long)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [1.0] * 50, [1.0, 2.0] * 20])
def test_too_few_or_level_values_do_not_rise(values: list[float]) -> None:
    assert not rises(values)


def test_growth_is_last_third_over_first_third() -> None:
    assert growth([1.0, 1.0, 5.0, 9.0, 3.0, 3.0]) == pytest.approx(3.0)
    assert growth([0.0, 0.0, 1.0, 2.0, 3.0, 4.0]) is None
    assert growth([1.0, 2.0, 3.0]) is None


def test_the_recent_median_forgets_the_beginning() -> None:
    assert recent_median(series("x", *[100.0] * 20, *[1.0] * 8)) == 1.0
