"""P(lag = k) of an answer about a log, with how far it moves when one side is dearer than thought.

A log's totals say each side to some percent, and a queue near balance turns on exactly that. So the queue is asked
again with generation dearer and cheaper by the answer's own interval. The surprise: shares need not move one way, so
their interval is the range of the three.
"""

import math

from steptune.core.estimate import Estimate, Source
from steptune.core.lag import LagShare
from steptune.forecast.cluster.phases import lag_distribution
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import StepForecast, simulated
from steptune.forecast.interval import Z_80

NOTE = "80 %: generation dearer and cheaper by the answer's interval"
"""What the interval of a share is."""


def lag_shares(made: StepForecast, sides: Sides, cluster: Cluster, log_sd: float) -> tuple[LagShare, ...]:
    """Return every lag that is trained, or would be with the sides a little off; alone where nothing can be late."""
    if cluster.queue.schedule != "async" or log_sd == 0:
        return tuple(LagShare(lag=lag, share=_plain(share)) for lag, share in made.lag.items())
    asked = [made.lag, *(_again(sides, cluster, sign * Z_80 * log_sd) for sign in (-1, 1))]
    return tuple(
        LagShare(lag=lag, share=_between([shares.get(lag, 0.0) for shares in asked]))
        for lag in sorted({k for shares in asked for k in shares})
    )


def _again(sides: Sides, cluster: Cluster, log: float) -> dict[int, float]:
    moved = Sides(parameters=sides.parameters.scaled(rollout=math.exp(log)), work=sides.work)
    return lag_distribution(simulated(moved, cluster, seed=0))


def _between(shares: list[float]) -> Estimate:
    return _plain(shares[0]).model_copy(update={"low": min(shares), "high": max(shares), "note": NOTE})


def _plain(share: float) -> Estimate:
    return Estimate(value=share, unit="frac", source=Source.FORECAST)
