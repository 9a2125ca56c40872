"""The forecast of one configuration: step, interval, every role's phases, idle and the distribution of lag.

Per role the phases and the waiting add up to the step. The interval has one term per side, each found by asking again
with that side's prices a standard deviation higher; lengths that were drawn and the model's own error come on top.
"""

import math
from dataclasses import dataclass
from statistics import fmean

from steptune.core.phase import Role
from steptune.forecast.cluster.bound import joined_s, least_s
from steptune.forecast.cluster.efficiency import exponent
from steptune.forecast.cluster.phases import Booked, booked_joined, booked_queue, idle_by_role
from steptune.forecast.cluster.queue import QueueRun, run_queue
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.interval import Z_80
from steptune.forecast.side import Key

MODEL_LOG_SD = 0.02
"""Log error of a step whose every price is exact: what the model leaves out. Prior, to be replaced by trials."""

NUM_STEPS = 48
"""Steps that count: the mean lag of a queue near balance wanders for several steps."""

ERROR_STEPS = 12
"""The same where only the change with a price is wanted: the noise of the draw is shared and cancels."""

WARMUP_PER_LAG = 2
"""Steps that do not count, per batch on its way: the queue fills and finds its ages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepForecast:
    """``StepForecast(step_s=151.0, low_s=140.1, high_s=162.7, ...)``."""

    step_s: float
    low_s: float
    """80 % interval."""
    high_s: float
    phases: dict[Key, float]
    """Seconds of a mean device of the role."""
    idle: dict[Role, float]
    """Waiting for another role or for the slowest of its own."""
    lag: dict[int, float]
    """P(lag = k) over trained rollouts."""
    dropped_frac: float
    """Completion tokens thrown away, of those made."""
    tokens_per_s: float
    """Completion tokens trained."""
    num_devices: int

    @property
    def mean_lag(self) -> float:
        """Return the mean age of trained rollouts in updates."""
        return math.fsum(k * p for k, p in self.lag.items())


def forecast_step(sides: Sides, cluster: Cluster, *, seed: int = 0) -> StepForecast:
    """Forecast one configuration.

    Raises:
        ForecastError: it cannot run, or the job cannot be forecast.
    """
    step_s, made = _mid(sides, cluster, seed)
    log_sd = math.hypot(*log_errors(sides, cluster, seed=seed).values(), MODEL_LOG_SD, sides.work.length_log_sd)
    spread = math.exp(Z_80 * log_sd)
    return StepForecast(
        step_s=step_s,
        low_s=step_s / spread,
        high_s=step_s * spread,
        phases=made.phases,
        idle=idle_by_role(made.phases, step_s),
        lag=made.lag,
        dropped_frac=made.dropped_frac,
        tokens_per_s=fmean(sum(g.num_tokens for g in step) for step in sides.work.steps) / step_s if step_s else 0.0,
        num_devices=cluster.num_devices,
    )


def step_seconds(sides: Sides, cluster: Cluster, *, seed: int = 0, num_steps: int = NUM_STEPS) -> float:
    """Return the step alone: what a sweep ranks by. Never below `bound.least_s`."""
    if cluster.queue.schedule != "async":
        return joined_s(sides, cluster)
    return max(simulated(sides, cluster, seed=seed, num_steps=num_steps).seconds, least_s(sides, cluster))


def log_errors(sides: Sides, cluster: Cluster, *, seed: int = 0) -> dict[str, float]:
    """Return by side the change of the log of the step when its prices rise by a standard deviation."""
    own = sides.parameters
    train_sd = math.hypot(own.train_log_sd, efficiency_sd(sides, cluster))
    moved = {
        "rollout": own.scaled(rollout=math.exp(own.rollout_log_sd)),
        "train": own.scaled(train=math.exp(train_sd)),
        "weight_sync": own.scaled(sync=math.exp(own.sync_log_sd)),
    }
    mid_s = step_seconds(sides, cluster, seed=seed, num_steps=ERROR_STEPS)
    if not mid_s > 0:
        return dict.fromkeys(moved, 0.0)
    return {
        side: math.log(
            step_seconds(Sides(parameters=p, work=sides.work), cluster, seed=seed, num_steps=ERROR_STEPS) / mid_s
        )
        for side, p in moved.items()
    }


def _mid(sides: Sides, cluster: Cluster, seed: int) -> tuple[float, Booked]:
    if cluster.queue.schedule != "async":
        return joined_s(sides, cluster), booked_joined(sides, cluster)
    run = simulated(sides, cluster, seed=seed)
    return max(run.seconds, least_s(sides, cluster)), booked_queue(run)


def efficiency_sd(sides: Sides, cluster: Cluster) -> float:
    """Return what the efficiency prior does not know of this split; nothing where terms were measured."""
    reference = sides.parameters.train_reference
    if reference is None:
        return 0.0
    slope = exponent(
        was_colocated=reference.is_colocated,
        is_colocated=cluster.is_colocated,
        seen=sides.parameters.device_trials,
    )
    return slope.log_sd(reference.num_devices, cluster.train.num_devices)


def simulated(sides: Sides, cluster: Cluster, *, seed: int, num_steps: int = NUM_STEPS) -> QueueRun:
    """Run an asynchronous configuration's queue for so many steps after its warm-up."""
    costs = sides.train_costs(cluster.train, is_colocated=cluster.is_colocated)
    num_warmup = WARMUP_PER_LAG * (cluster.queue.max_lag + 1)
    return run_queue(
        cluster.queue,
        (cluster.rollout, sides.parameters.rollout),
        (cluster.train, costs),
        sides.extended(num_warmup + num_steps + cluster.queue.max_lag + 1, seed=seed),
        sync_s=sides.still_s(cluster),
        num_steps=num_steps,
        num_warmup=num_warmup,
        acceptance=sides.parameters.acceptance,
        seed=seed,
    )
