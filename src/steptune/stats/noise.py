"""The noise floor: how far step times spread when nothing is changed, and the gain that stands above it.

Two launches of the same configuration (A and A') run interleaved, as the arms of a trial would. The spread
inside one launch is robust (median absolute deviation), because one hiccup must not buy a wide floor.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.estimate import Source
from steptune.core.profile import NoiseFloor
from steptune.stats.finite import finite_or_none, require_finite
from steptune.stats.intervals import DEFAULT_CONFIDENCE
from steptune.stats.ratio import ratio_interval
from steptune.stats.student_t import t_quantile

MAD_TO_SD = 1.4826
"""1 / Φ⁻¹(3/4): median absolute deviation times this estimates the sd of a normal sample."""

Z_95 = statistics.NormalDist().inv_cdf(0.975)
"""Two-sided 95 % normal quantile, 1.96."""


MIN_WORTH_FRAC = 0.01
"""Least gain worth having: tuning that took as long as 500 steps and gains less is not paid back within 50,000."""


def robust_sd(values: Sequence[float]) -> float:
    """Return MAD · 1.4826, or the plain sd where more than half of the values are equal (MAD 0).

    The fallback matters: a coarse clock would otherwise report a noise of exactly zero.

    Raises:
        ValueError: fewer than two values, or one that is not finite.
    """
    kept = require_finite(values, at_least=2)
    centre = statistics.median(kept)
    mad = statistics.median(abs(value - centre) for value in kept)
    return MAD_TO_SD * mad if mad > 0 else statistics.stdev(kept)


def within_launch_cv(step_times_s: Sequence[float]) -> float:
    """Return the robust coefficient of variation of one launch's steps, warm-up already dropped.

    Raises:
        ValueError: fewer than two steps, or a median that is not above zero.
    """
    spread = robust_sd(step_times_s)
    centre = statistics.median(step_times_s)
    if centre <= 0:
        raise ValueError(f"step times must be above zero, got median {centre}")
    return spread / centre


def between_launch_frac(a_s: Sequence[float], a_prime_s: Sequence[float]) -> float:
    """Return |median A - median A'| / mean of the two medians.

    Raises:
        ValueError: a launch has no step, or a step that is not finite.
    """
    medians = [statistics.median(require_finite(times, at_least=1)) for times in (a_s, a_prime_s)]
    return abs(medians[0] - medians[1]) / statistics.fmean(medians)


def noise_floor(a_s: Sequence[float], a_prime_s: Sequence[float]) -> NoiseFloor:
    """Return the floor from paired step times of two launches of one configuration, in run order.

    Raises:
        ValueError: fewer than two pairs, unequal lengths, or a time that is not finite and above zero.
    """
    ratio = ratio_interval(a_s, a_prime_s)
    cvs = [within_launch_cv(times) for times in (a_s, a_prime_s)]
    return NoiseFloor(
        within_launch_cv=math.sqrt(statistics.fmean(cv * cv for cv in cvs)),
        between_launch_frac=between_launch_frac(a_s, a_prime_s),
        aa_ratio=ratio.estimate(unit="x", source=Source.DERIVED, note="A/A: same configuration, two launches"),
        num_steps=len(a_s) + len(a_prime_s),
    )


def noise_band_frac(noise: NoiseFloor) -> float | None:
    """Return the largest gain (1 - ratio) that the A/A repeat cannot tell from no change; None if broken.

    It is the larger of the launch-to-launch shift and the far end of the A/A ratio's interval, read as a gain
    in either direction. One A/A repeat may come out equal by luck; the far end keeps that from passing for
    silence. Without an interval the far end is 1.96 standard errors of the within-launch spread.
    """
    low, high = noise.aa_ratio.low, noise.aa_ratio.high
    if low is None or high is None:
        if noise.num_steps < 1:
            return None
        half = Z_95 * noise.within_launch_cv * 2.0 / math.sqrt(noise.num_steps)
        low, high = noise.aa_ratio.value * (1.0 - half), noise.aa_ratio.value * (1.0 + half)
    parts = finite_or_none((low, high, noise.between_launch_frac, noise.within_launch_cv))
    if parts is None or high <= 0:
        return None
    return max(noise.between_launch_frac, 1.0 - low, 1.0 - 1.0 / high)


def worth_frac(noise: NoiseFloor) -> float | None:
    """Return the least gain (1 - ratio) of a trial that counts; None if the floor is broken.

    A trial's interval knows the spread inside its launches. What it does not know is how far two launches of one
    configuration lie apart, so the shift that the A/A repeat showed *beyond* its own standard error is asked on top,
    and `MIN_WORTH_FRAC` at least. The whole shift would count the inner spread twice: at 5 % noise it alone hid a gain
    of 5 % in one session of six (simulated, 2026-11-30).
    """
    parts = finite_or_none((noise.between_launch_frac, noise.within_launch_cv))
    if parts is None:
        return None
    inside = _aa_standard_error(noise) or 0.0
    return max(MIN_WORTH_FRAC, math.sqrt(max(0.0, parts[0] ** 2 - inside**2)))


def step_pair_sd(noise: NoiseFloor) -> float | None:
    """Return the standard deviation of the log ratio of two steps of the A/A repeat; None where it has no interval."""
    error = _aa_standard_error(noise)
    return None if error is None or noise.aa_ratio.n is None else error * math.sqrt(noise.aa_ratio.n)


def _aa_standard_error(noise: NoiseFloor) -> float | None:
    kept = finite_or_none((noise.aa_ratio.low, noise.aa_ratio.high))
    if kept is None or not 0 < kept[0] <= kept[1] or noise.aa_ratio.n is None or noise.aa_ratio.n < 2:
        return None
    return math.log(kept[1] / kept[0]) / 2 / t_quantile(0.5 + DEFAULT_CONFIDENCE / 2, noise.aa_ratio.n - 1)
