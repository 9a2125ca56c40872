"""When a replay of one side ends a trial."""

import math

import pytest

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import SideTimes
from steptune.core.profile import NoiseFloor, PairSpread
from steptune.decide.screen import SCREEN_LOOKS, Screening, judge_screen, leads, losing_line

NOISE = NoiseFloor(
    within_launch_cv=0.01,
    between_launch_frac=0.0,
    aa_ratio=Estimate(value=1.0, low=0.99, high=1.01, unit="x", source=Source.DERIVED, n=6),
    num_steps=12,
)
INCUMBENT_S = (0.40, 0.41, 0.40, 0.39, 0.40, 0.40)


def screened(
    ratio: float,
    *,
    booked_s: float = 0.4,
    devices_ratio: float = 1.0,
    pairs: int = 6,
    step_s: float = 1.0,
    spread: PairSpread | None = None,
) -> Screening:
    wobble = (1.002, 0.998, 1.001, 0.999, 1.0, 1.0)
    times = SideTimes(
        incumbent_s=INCUMBENT_S[:pairs],
        candidate_s=tuple(i * ratio * w for i, w in zip(INCUMBENT_S, wobble, strict=True))[:pairs],
    )
    return judge_screen(
        times, incumbent_step_s=step_s, booked_s=booked_s, devices_ratio=devices_ratio, noise=NOISE, spread=spread
    )


def test_a_side_that_is_not_faster_ends_the_trial() -> None:
    assert not screened(1.0).goes_on
    assert not screened(1.3).goes_on


def test_a_faster_side_goes_on() -> None:
    assert screened(0.9).goes_on


def test_the_ratio_is_that_of_the_whole_step() -> None:
    result = screened(0.5)  # half of 0.4 s of a step of 1 s: 0.8 of the step
    assert result.ratio is not None
    assert result.ratio.value == pytest.approx(0.8, abs=1e-3)


def test_a_gain_on_a_side_too_small_to_matter_ends_the_trial() -> None:
    assert not screened(0.9, booked_s=0.0, step_s=40.0).goes_on  # a tenth of 1 % of the step


def test_the_larger_of_the_booked_and_the_replayed_part_counts() -> None:
    assert screened(0.9, booked_s=20.0, step_s=40.0).goes_on


def test_fewer_devices_are_a_gain_where_the_objective_counts_them() -> None:
    assert screened(1.0, devices_ratio=0.5).goes_on


def test_too_few_pairs_settle_nothing() -> None:
    result = screened(1.3, pairs=SCREEN_LOOKS[0] - 1)
    assert result.goes_on
    assert result.ratio is None


@pytest.mark.parametrize("bad_s", [math.nan, 0.0, -1.0, math.inf])
def test_an_impossible_time_settles_nothing(bad_s: float) -> None:
    times = SideTimes(incumbent_s=INCUMBENT_S, candidate_s=(*INCUMBENT_S[:-1], bad_s))
    result = judge_screen(times, incumbent_step_s=1.0, booked_s=0.4, devices_ratio=1.0, noise=NOISE, spread=None)
    assert result.goes_on
    assert result.ratio is None


def test_a_failed_replay_settles_nothing() -> None:
    assert judge_screen(None, incumbent_step_s=1.0, booked_s=0.4, devices_ratio=1.0, noise=NOISE, spread=None).goes_on


def test_the_losing_line_is_where_the_whole_step_gains_just_what_is_worth_having() -> None:
    # half of the step at 0.96 is 0.98 of the step; on half of the devices a step may take 1.96 times as long
    assert losing_line(0.5, 1.0, 0.02) == pytest.approx(0.96)
    assert losing_line(0.5, 0.5, 0.02) == pytest.approx(1 + 0.96 / 0.5)
    assert losing_line(0.0, 1.0, 0.02) == 1.0


def test_a_gain_leads_where_even_its_slow_end_is_worth_having() -> None:
    worth = 0.01  # `worth_frac` of NOISE
    assert leads(screened(0.9).ratio, worth)  # 0.96 of the step
    assert not leads(screened(0.976).ratio, worth)  # 0.9904 of the step
    assert not leads(None, worth)
    assert not leads(screened(0.9).ratio, math.nan)


def test_a_scatter_seen_elsewhere_widens_what_calm_pairs_say() -> None:
    alone, pooled = screened(0.9).ratio, screened(0.9, spread=PairSpread(sd=0.05, num_degrees=11)).ratio
    assert alone is not None
    assert pooled is not None
    assert alone.value == pooled.value
    assert (pooled.low or 0) < (alone.low or 0) < (alone.high or 0) < (pooled.high or 0)
