"""How wrong forecasts are: |ln(forecast / measured)|, its median, and the same statistic of an A/A repeat.

The log makes twice too long and half as long equally wrong. The A/A analogue is the error of the best
forecaster there could be: one that foretells a launch by another launch of the same configuration.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.stats.ratio import block_means, paired_ratios


def log_ratio_errors(forecast: Sequence[float], measured: Sequence[float]) -> list[float]:
    """Return |ln(forecast / measured)| pair by pair; both positive, in the same unit.

    Raises:
        ValueError: lengths differ, or a value is missing, not finite or not above zero.
    """
    return [abs(math.log(ratio)) for ratio in paired_ratios(forecast, measured)]


def median_ratio_error(forecast: Sequence[float], measured: Sequence[float]) -> float:
    """Return the median error as a fraction: 0.12 means half of the forecasts are within a factor 1.12.

    Raises:
        ValueError: as `log_ratio_errors`, or no pairs.
    """
    return math.expm1(statistics.median(log_ratio_errors(forecast, measured)))


def aa_ratio_error(a_s: Sequence[float], a_prime_s: Sequence[float], *, steps_per_trial: int) -> float:
    """Return the median error when launch A foretells launch A', in pieces as long as a trial.

    Each ``steps_per_trial`` consecutive steps make one pretended trial, compared by mean step time; a
    shorter rest is left out. Longer trials average more noise away, so the length must be that of the trials
    whose forecasts are judged.

    Raises:
        ValueError: lengths differ, not one whole piece, or a time that is not finite and above zero.
    """
    if not 1 <= steps_per_trial <= len(a_s):
        raise ValueError(f"need 1 to {len(a_s)} steps per trial, got {steps_per_trial}")
    starts = range(0, len(a_s) - steps_per_trial + 1, steps_per_trial)
    a_means, a_prime_means = (
        block_means([times[start : start + steps_per_trial] for start in starts]) for times in (a_s, a_prime_s)
    )
    return median_ratio_error(a_means, a_prime_means)
