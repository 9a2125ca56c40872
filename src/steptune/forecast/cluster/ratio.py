"""Candidate over baseline with its interval: what both share cancels.

A price that is 5 % too high lengthens both steps. Only the *difference* in how much each answers to it is left in the
ratio, so a ratio is surer than a step; where the candidate stands on another side's price, it is not.
"""

import math

from steptune.core.errors import explain
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
    if candidate == baseline:
        return RatioInterval(low=mid, mid=mid, high=mid)
    base, own = (log_errors(sides, c, seed=seed) for c in (baseline, candidate))
    spread = math.exp(Z_80 * math.hypot(MODEL_LOG_SD, sides.work.length_log_sd, *(own[k] - base[k] for k in own)))
    return RatioInterval(low=mid / spread, mid=mid, high=mid * spread)
