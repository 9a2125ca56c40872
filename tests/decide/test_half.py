"""The ratio of one replayed side, in turn with the baseline's or with a half measured before."""

import math

import pytest

from steptune.core.framework import SideTimes
from steptune.core.profile import PairSpread
from steptune.decide.half import half_ratio

TIMES = SideTimes(incumbent_s=(1.0, 1.1, 0.9), candidate_s=(0.5, 0.55, 0.45))


def test_it_is_the_pairs_ratio_beside_the_baseline() -> None:
    ratio = half_ratio(TIMES, 1.0, PairSpread(sd=0.04, num_degrees=11))
    assert ratio is not None
    assert ratio.value == pytest.approx(0.5)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 0.5 < ratio.high


def test_beside_another_half_it_is_that_halfs_ratio_times_the_pairs() -> None:
    ratio = half_ratio(TIMES, 0.6, None)
    assert ratio is not None
    assert ratio.value == pytest.approx(0.3)


@pytest.mark.parametrize(
    "times",
    [
        None,
        SideTimes(incumbent_s=(1.0, 1.0), candidate_s=(0.5, 0.5)),
        SideTimes(incumbent_s=(1.0, 1.0, 0.0), candidate_s=(0.5, 0.5, 0.5)),
        SideTimes(incumbent_s=(1.0, 1.0, 1.0), candidate_s=(0.5, math.nan, 0.5)),
    ],
)
def test_a_replay_that_failed_was_too_short_or_gave_an_impossible_time_has_none(times: SideTimes | None) -> None:
    assert half_ratio(times, 1.0, None) is None
