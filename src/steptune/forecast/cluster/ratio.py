"""Candidate over baseline with its interval: what both share cancels.

A price that is 5 % too high lengthens both steps. Only the *difference* in how much each answers to it is left in the
ratio, so a ratio is surer than a step; where the candidate stands on another side's price, it is not. Where lengths
were logged, both are asked in the same other profiles (`resample`), which knows the tail as well as the mean; where
they were drawn from a summary, each side's price is moved by a deviation.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from steptune.core.errors import explain
from steptune.forecast.cluster.resample import Answer, answers, other_profiles
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import MODEL_LOG_SD, log_errors, step_seconds
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Z_80, RatioInterval


def forecast_ratio(sides: Sides, baseline: Cluster, candidate: Cluster, *, seed: int = 0) -> RatioInterval:
    """Return the 80 % interval of candidate / baseline step time; above 1 the candidate would lose here.

    Raises:
        ForecastError: one of them cannot run, or the baseline takes no time.
    """
    base_s = step_seconds(sides, baseline, seed=seed)
    if not base_s > 0:
        raise ForecastError(
            explain(
                "the baseline takes no time",
                got=f"a step of {base_s} s",
                allowed="a positive step",
                hint="give it prices and rollouts",
            )
        )
    mid = step_seconds(sides, candidate, seed=seed) / base_s
    if candidate == baseline or mid == 0:
        return RatioInterval(low=mid, mid=mid, high=mid)
    if sides.work.num_logged_groups:
        others = other_profiles(sides.work, seed=seed)
        return sampled_ratio(answers(sides, others, baseline), answers(sides, others, candidate))
    base, own = (log_errors(sides, c, seed=seed) for c in (baseline, candidate))
    return _interval(mid, math.hypot(sides.work.length_log_sd, *(own[k] - base[k] for k in own)))


def sampled_ratio(baseline: Sequence[Answer], candidate: Sequence[Answer]) -> RatioInterval:
    """Return mean and interval of the answers of the same other profiles to both."""
    logs = [math.log(own.seconds / base.seconds) for base, own in zip(baseline, candidate, strict=True)]
    return _interval(math.exp(fmean(logs)), stdev(logs))


def _interval(mid: float, log_sd: float) -> RatioInterval:
    spread = math.exp(Z_80 * math.hypot(MODEL_LOG_SD, log_sd))
    return RatioInterval(low=mid / spread, mid=mid, high=mid * spread)
