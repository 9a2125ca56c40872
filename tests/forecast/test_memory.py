import pytest
from forecast_cases import BASELINE, TOTAL_BYTES, plan, profile, train

from steptune.forecast.memory import fits, memory_peak

# the baseline peaks at 1 GB; 20 % head-room of 10 GB leaves 8


@pytest.mark.parametrize(
    ("extra_bytes", "expected"),
    [
        (1e9, True),  # 2 GB, error 0.33
        (-0.5e9, True),
        (6.5e9, None),  # 7.5 GB, error 1.98: 5.5 to 9.5
        (20e9, False),  # 21 GB, error 6.03
    ],
)
def test_fit_is_yes_no_or_too_close_to_call(extra_bytes: float, expected: bool | None) -> None:
    peak = memory_peak(profile(), BASELINE, plan(train(), memory_bytes=extra_bytes))
    assert peak is not None
    assert peak.value == pytest.approx(1e9 + extra_bytes)
    assert fits(peak, total_memory_bytes=TOTAL_BYTES, headroom_frac=0.2) is expected


def test_an_unknown_peak_is_not_a_fit() -> None:
    peak = memory_peak(profile(memory_peak_bytes=None), BASELINE, BASELINE)
    assert peak is None
    assert fits(peak, total_memory_bytes=TOTAL_BYTES, headroom_frac=0.2) is None


def test_only_the_difference_between_two_plans_counts() -> None:
    # an adapter may book the baseline's own needs: the measured peak already holds them
    own = plan(train(), memory_bytes=3e9)
    peak = memory_peak(profile(), own, own)
    assert peak is not None
    assert peak.value == 1e9
