import math
import random

import pytest

from steptune.core.estimate import Estimate, Source
from steptune.core.profile import NoiseFloor
from steptune.stats.noise import (
    MIN_WORTH_FRAC,
    between_launch_frac,
    noise_band_frac,
    noise_floor,
    robust_sd,
    step_pair_sd,
    within_launch_cv,
    worth_frac,
)


def floor_of(
    *,
    within: float = 0.02,
    between: float = 0.01,
    ratio: float = 1.0,
    low: float | None = 0.98,
    high: float | None = 1.03,
    num_steps: int = 16,
) -> NoiseFloor:
    aa_ratio = Estimate(value=ratio, low=low, high=high, unit="x", source=Source.DERIVED)
    return NoiseFloor(within_launch_cv=within, between_launch_frac=between, aa_ratio=aa_ratio, num_steps=num_steps)


def test_robust_sd_estimates_the_sd_and_ignores_one_hiccup() -> None:
    rng = random.Random(3)
    times = [rng.gauss(1.0, 0.05) for _ in range(400)]
    assert robust_sd(times) == pytest.approx(0.05, rel=0.15)
    assert robust_sd([*times, 60.0]) == pytest.approx(robust_sd(times), rel=0.05)


def test_a_coarse_clock_does_not_report_zero_noise() -> None:
    # five of six equal: the median absolute deviation is 0, the plain sd is 0.1 * sqrt(1/6) = 0.0408
    assert robust_sd([1.0, 1.0, 1.0, 1.0, 1.0, 1.1]) == pytest.approx(0.0408, abs=1e-4)


def test_within_launch_cv_is_relative_to_the_median() -> None:
    # deviations from 10: 1, 0, 1 -> MAD 1 -> 1.4826 / 10
    assert within_launch_cv([9.0, 10.0, 11.0]) == pytest.approx(0.14826)
    with pytest.raises(ValueError, match="above zero"):
        within_launch_cv([0.0, 0.0, 0.0])


def test_between_launch_frac_compares_medians_symmetrically() -> None:
    # medians 1.0 and 1.1, mean of the two 1.05
    assert between_launch_frac([1.0, 1.0, 9.0], [1.1]) == pytest.approx(0.1 / 1.05)
    assert between_launch_frac([1.1], [1.0]) == between_launch_frac([1.0], [1.1])


def test_noise_floor_pairs_the_two_launches() -> None:
    slow_spell = [1.0, 1.0, 2.0, 2.0]
    floor = noise_floor([t * 1.01 for t in slow_spell], slow_spell)
    assert floor.aa_ratio.value == pytest.approx(1.01)
    assert floor.aa_ratio.high == pytest.approx(1.01)
    assert floor.between_launch_frac == pytest.approx(0.01 / 1.005)
    assert floor.num_steps == 8
    # one launch: median 1.5, MAD 0.5 -> 0.4942; both launches alike
    assert floor.within_launch_cv == pytest.approx(1.4826 / 3)


@pytest.mark.parametrize("arm", [[1.0], [1.0, math.nan], [1.0, 2.0, 3.0]])
def test_a_noise_floor_needs_equal_finite_arms(arm: list[float]) -> None:
    with pytest.raises(ValueError, match=r"finite|zip"):
        noise_floor(arm, [1.0, 2.0])


def test_the_band_is_the_far_end_of_the_aa_interval_read_as_a_gain() -> None:
    # low 0.98 is a gain of 2 %; high 1.03 is a gain of 1 - 1/1.03 = 2.91 % with the arms swapped
    assert noise_band_frac(floor_of()) == pytest.approx(1 - 1 / 1.03)
    assert noise_band_frac(floor_of(low=0.9)) == pytest.approx(0.1)


def test_the_band_is_never_below_the_launch_to_launch_shift() -> None:
    assert noise_band_frac(floor_of(between=0.2)) == 0.2


def test_without_an_interval_the_band_comes_from_the_within_launch_spread() -> None:
    # 1.96 * 0.02 * 2 / sqrt(16) = 1.96 %
    assert noise_band_frac(floor_of(low=None, high=None)) == pytest.approx(0.0196, abs=1e-5)


@pytest.mark.parametrize(
    "broken",
    [
        floor_of(within=math.nan),
        floor_of(between=math.nan),
        floor_of(low=None, high=1.0, ratio=math.nan),
        floor_of(low=None, num_steps=0),
        floor_of(low=-1.0, high=-0.5),
    ],
)
def test_a_broken_noise_floor_has_no_band(broken: NoiseFloor) -> None:
    assert noise_band_frac(broken) is None


def test_the_band_holds_most_repeats_in_which_nothing_changed() -> None:
    # a second A/A repeat of the same two-launch experiment lies inside the band of the first nearly always
    rng = random.Random(8)

    def launches() -> tuple[list[float], list[float]]:
        offsets = [math.exp(rng.gauss(0.0, 0.01)) for _ in range(2)]
        a, b = ([o * math.exp(rng.gauss(0.0, 0.03)) for _ in range(8)] for o in offsets)
        return a, b

    inside = 0
    for _ in range(300):
        band = noise_band_frac(noise_floor(*launches()))
        repeat = noise_floor(*launches()).aa_ratio.value
        assert band is not None
        inside += repeat >= 1 - band
    assert inside / 300 > 0.93


def test_the_shift_between_launches_counts_beyond_what_the_spread_inside_explains() -> None:
    def floor(half_width: float) -> NoiseFloor:
        ratio = Estimate(
            value=1.0, low=math.exp(-half_width), high=math.exp(half_width), unit="x", source=Source.DERIVED, n=4
        )
        return NoiseFloor(within_launch_cv=0.05, between_launch_frac=0.03, aa_ratio=ratio, num_steps=24)

    # t(3) = 3.182: half-widths of 0.0636 and 0.0955 are standard errors of 2 % and 3 %
    assert worth_frac(floor(0.0)) == pytest.approx(0.03)
    assert worth_frac(floor(0.06364)) == pytest.approx((0.03**2 - 0.02**2) ** 0.5, rel=1e-3)
    assert worth_frac(floor(0.12)) == MIN_WORTH_FRAC
    assert step_pair_sd(floor(0.06364)) == pytest.approx(0.04, rel=1e-3)


def test_a_broken_floor_has_no_least_gain() -> None:
    broken = floor_of().model_copy(update={"between_launch_frac": math.nan})
    assert worth_frac(broken) is None
    assert step_pair_sd(floor_of(low=None, high=None)) is None
