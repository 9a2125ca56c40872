"""One profiled configuration into the step model's parameters: what a log of a few steps says, fitted term by term.

A `StepTrace` holds what engines and trainers log anyway. Nothing in it is a sweep: the decode curve is the drain of the
job's own batches, micro-batches differ in size by themselves. The surprise: a straggler ends last, so the one-row end
of a naive curve is *its* end; replicas are therefore put on one scale before the curve is read off.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, variance

from steptune.core.errors import explain
from steptune.core.estimate import Source
from steptune.forecast.cluster.decode import DrainPoint, curve_from_drain
from steptune.forecast.cluster.parameters import Parameter, StepParameters
from steptune.forecast.cluster.rollout_knobs import RolloutCosts
from steptune.forecast.cluster.sync import SwitchCosts, SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts
from steptune.forecast.curve import ForecastError

STRAGGLER_FRAC = 0.1
"""Part by which a device must differ from the others before it is a straggler and not noise. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """``MicroBatch(positions=8100, squared=21.4e6, seconds=0.81)``: one forward and backward."""

    positions: float
    squared: float
    """Sum over its rows of squared positions."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTrace:
    """What the steps of one profiled configuration logged."""

    drain: tuple[DrainPoint, ...]
    """Decode iterations, all replicas together, as a healthy one would have taken."""
    prefills: tuple[tuple[float, float], ...] = ()
    """(positions, seconds)."""
    micro_batches: tuple[MicroBatch, ...] = ()
    num_ranks: int = 1
    update_s: float = 0.0
    """Optimizer, per update."""
    update_log_sd: float = 0.0
    """Standard error of its log: the spread of the logged updates over the root of their number."""
    reduce_s: float = 0.0
    """Exposed gradient reduction, per update."""
    sync_s: float = 0.0
    """Weights, per step."""
    switch_s: float = 0.0
    carried_s: float = 0.0
    """Per step, what no other span covers."""
    acceptance: float = 1.0
    replica_slowdown: tuple[float, ...] = ()
    """Seconds of each replica over a healthy one's, as `slowdowns` finds them; those not named are healthy."""
    rank_slowdown: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        factors = (*self.replica_slowdown, *self.rank_slowdown)
        if not all(math.isfinite(f) and f > 0 for f in factors):
            raise ForecastError(
                explain(
                    "a device cannot be so slow",
                    got=f"replicas {self.replica_slowdown}, ranks {self.rank_slowdown}",
                    allowed="seconds over a healthy device's: positive and finite",
                    hint="leave out what was not measured; those not named are healthy",
                )
            )


def calibrate(trace: StepTrace) -> StepParameters:
    """Fit every term that the trace shows; the rest keeps its neutral value.

    Raises:
        ForecastError: there is no decode iteration or no micro-batch to fit on.
    """
    curve = curve_from_drain(trace.drain)
    prefill_base_s, prefill_per_token_s = line(trace.prefills)
    train = fit_train(trace.micro_batches)
    train = replace(
        train,
        per_update_s=trace.update_s,
        carried_s=trace.carried_s,
        slowdown=trace.rank_slowdown,
        **_reduction(trace),
    )
    rollout = RolloutCosts(
        decode=curve,
        prefill_base_s=prefill_base_s,
        prefill_per_token_s=prefill_per_token_s,
        slowdown=trace.replica_slowdown,
    )
    made = StepParameters(
        rollout=rollout,
        train=train,
        sync=SyncCosts(pause_s=trace.sync_s),
        switch=SwitchCosts(to_rollout_s=trace.switch_s),
        acceptance=trace.acceptance,
        rollout_log_sd=curve.log_sd / math.sqrt(max(len(trace.drain), 1)) + PRICE_LOG_SD,
        train_log_sd=PRICE_LOG_SD,
        update_log_sd=trace.update_log_sd,
    )
    return replace(made, listed=tuple(_listed(made)))


PRICE_LOG_SD = 0.02
"""Log error of a side whose prices were fitted on spans of the same job. Prior, to be replaced by trials."""


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return base and slope by least squares, neither below zero; (0, 0) without points."""
    if not points:
        return 0.0, 0.0
    x = math.fsum(p[0] for p in points) / len(points)
    y = math.fsum(p[1] for p in points) / len(points)
    sxx = math.fsum((p[0] - x) ** 2 for p in points)
    slope = max(math.fsum((a - x) * (b - y) for a, b in points) / sxx, 0.0) if sxx > 0 else 0.0
    if y - slope * x >= 0:
        return y - slope * x, slope
    return 0.0, math.fsum(a * b for a, b in points) / math.fsum(a * a for a, _ in points)


def fit_train(micro_batches: Sequence[MicroBatch]) -> TrainCosts:
    """Fit overhead, tokens and squares; the squares are kept only where they halve the squared error.

    Raises:
        ForecastError: no micro-batch.
    """
    if not micro_batches:
        raise ForecastError(
            explain(
                "training has no measured micro-batch",
                got="none",
                allowed="one or more, with positions and seconds",
                hint="log micro-batches, or calibrate on phase totals (`totals.parameters_from_totals`)",
            )
        )
    base, per_token = line([(m.positions, m.seconds) for m in micro_batches])
    linear = TrainCosts(per_token_s=per_token, per_micro_batch_s=base)
    curved = _with_squares(micro_batches)
    if curved is None or _error(curved, micro_batches) > KEEP_SQUARES * _error(linear, micro_batches):
        return linear
    return curved


KEEP_SQUARES = 0.5
"""Part of the linear fit's squared error below which attention's squares have earned their parameter. Prior."""


def mean_log_sd(spans_s: Sequence[float]) -> float:
    """Return the standard error of the log of the mean of positive spans, by the spread of their logs.

    Eight spans with a long tail rarely show it, and their own deviation is then too small; as lognormals they have it.
    Zero for fewer than two.
    """
    logs = [math.log(s) for s in spans_s if s > 0]
    return math.sqrt(math.expm1(variance(logs)) / len(logs)) if len(logs) > 1 else 0.0


def slowdowns(measured_busy_s: Sequence[float], modelled_busy_s: Sequence[float]) -> tuple[float, ...]:
    """Return each device's factor over the healthy ones: measured over modelled busy seconds, the median taken as 1."""
    ratios = [m / f if f > 0 else math.nan for m, f in zip(measured_busy_s, modelled_busy_s, strict=True)]
    known = [r for r in ratios if math.isfinite(r) and r > 0]
    if not known:
        return ()
    usual = median(known)
    factors = [r / usual if math.isfinite(r) and r > 0 else 1.0 for r in ratios]
    return tuple(f if abs(f - 1) > STRAGGLER_FRAC else 1.0 for f in factors)


def _with_squares(micro_batches: Sequence[MicroBatch]) -> TrainCosts | None:
    """Least squares on three columns by normal equations; None where they are not told apart or a price is negative."""
    scale = (1.0, max(m.positions for m in micro_batches) or 1.0, max(m.squared for m in micro_batches) or 1.0)
    columns = [[1.0, m.positions / scale[1], m.squared / scale[2]] for m in micro_batches]
    normal = [
        [math.fsum(c[i] * c[j] for c in columns) for j in range(3)]
        + [math.fsum(c[i] * m.seconds for c, m in zip(columns, micro_batches, strict=True))]
        for i in range(3)
    ]
    for i in range(3):
        if normal[i][i] < 1e-9 * len(columns):
            return None
        for j in range(i + 1, 3):
            factor = normal[j][i] / normal[i][i]
            normal[j] = [a - factor * b for a, b in zip(normal[j], normal[i], strict=True)]
    found = [0.0, 0.0, 0.0]
    for i in (2, 1, 0):
        found[i] = (normal[i][3] - math.fsum(normal[i][j] * found[j] for j in range(i + 1, 3))) / normal[i][i]
    if min(found) < 0:
        return None
    return TrainCosts(
        per_micro_batch_s=found[0], per_token_s=found[1] / scale[1], per_token_squared_s=found[2] / scale[2]
    )


def _error(costs: TrainCosts, micro_batches: Sequence[MicroBatch]) -> float:
    return math.fsum(
        (costs.per_micro_batch_s + costs.per_token_s * m.positions + costs.per_token_squared_s * m.squared - m.seconds)
        ** 2
        for m in micro_batches
    )


def _reduction(trace: StepTrace) -> dict[str, float]:
    """Return bytes and bandwidth of a ring whose time on the profiled ranks is the measured one."""
    if trace.num_ranks < 2 or trace.reduce_s == 0:
        return {}
    share = 2 * (trace.num_ranks - 1) / trace.num_ranks
    return {"reduce_bytes": trace.reduce_s / share, "reduce_bytes_per_s": 1.0}


def _listed(made: StepParameters) -> list[Parameter]:
    curve, train = made.rollout.decode, made.train
    knots = [
        Parameter(name=f"decode at {r:.3g} rows", value=s, unit="s", source=Source.MEASURED, where="drain")
        for r, s in zip(curve.rows, curve.seconds, strict=True)
    ]
    terms = [
        ("decode per cached token", curve.per_cached_token_s, "drain, equal rows"),
        ("decode stall per iteration", curve.stall_s, "drain, mean beyond the knots"),
        ("prefill fixed", made.rollout.prefill_base_s, "prefill spans"),
        ("prefill per token", made.rollout.prefill_per_token_s, "prefill spans"),
        ("train per token", train.per_token_s, "micro-batches"),
        ("train per squared token", train.per_token_squared_s, "micro-batches"),
        ("train per micro-batch", train.per_micro_batch_s, "micro-batches"),
        ("optimizer", train.per_update_s, "update spans"),
        ("gradient reduction, n to infinity", 2 * train.reduce_bytes / train.reduce_bytes_per_s, "reduce spans"),
        ("weights", made.sync.pause_s, "weight_sync spans"),
        ("mode switch", made.switch.seconds, "mode_switch spans"),
        ("carried", train.carried_s, "what no span covers"),
    ]
    measured = [
        Parameter(name=name, value=value, unit="s", source=Source.MEASURED, where=where)
        for name, value, where in terms
        if value > 0
    ]
    stragglers = [
        Parameter(
            name=f"{side} {i} over a healthy one", value=f, unit="1", source=Source.MEASURED, where="busy seconds"
        )
        for side, factors in (("replica", made.rollout.slowdown), ("rank", train.slowdown))
        for i, f in enumerate(factors)
        if f != 1
    ]
    errors = [
        Parameter(name=f"{side} prices, log sd", value=sd, unit="1", source=Source.FORECAST, where="prior")
        for side, sd in (("rollout", made.rollout_log_sd), ("train", made.train_log_sd), ("sync", made.sync_log_sd))
    ]
    return [*knots, *measured, *stragglers, *errors]
