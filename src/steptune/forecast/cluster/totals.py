"""A pasted log or a published row into parameters: one total per side, the shapes behind them are priors.

Two free constants, however rich the model: a scale of the rollout and a scale of training. What a total cannot tell
(rows against fixed cost of an iteration; how training answers to devices) is a prior with its spread, and the interval
says so.
"""

from dataclasses import dataclass, replace
from statistics import fmean

from steptune.core.errors import explain
from steptune.core.estimate import Source
from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.efficiency import SAME_MODE, SHARED_TO_OWN
from steptune.forecast.cluster.parameters import Parameter, StepParameters, TrainReference
from steptune.forecast.cluster.rollout_knobs import RolloutCosts
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.sync import SwitchCosts, SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts
from steptune.forecast.cluster.work import Work
from steptune.forecast.curve import ForecastError

ROWS_TO_DOUBLE = 128.0
"""Running rows at which an iteration takes twice as long as with one: weights are read once, rows one by one. Prior
without a publication: on GPUs the crossing lies between tens and several hundreds of rows."""

SHAPE_LOG_SD = 0.08
"""Log error of a rollout whose curve's shape is a prior, for another number of rows per replica. Prior."""

TOTAL_LOG_SD = 0.04
"""Log error of a side calibrated on one total. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Seconds per step as a log states them, of work done: a full generation, not the wait for one."""

    rollout_s: float
    train_s: float
    """Training and log-prob passes beside it."""
    sync_s: float = 0.0
    switch_s: float = 0.0
    carried_s: float = 0.0


def parameters_from_totals(
    work: Work,
    cluster: Cluster,
    totals: Totals,
    *,
    acceptance: float = 1.0,
    rows_to_double: float = ROWS_TO_DOUBLE,
) -> StepParameters:
    """Scale the priors' shapes until the model gives this configuration's totals.

    Raises:
        ForecastError: a side's total is not a positive number, or the configuration cannot run.
    """
    shape = DecodeCurve(rows=(1.0, 1.0 + rows_to_double), seconds=(1.0, 2.0))
    raw = StepParameters(rollout=RolloutCosts(decode=shape), train=TrainCosts(per_token_s=1.0), acceptance=acceptance)
    made = scaled_to(raw, work, cluster, totals)
    return replace(
        made,
        train_reference=TrainReference(num_devices=cluster.train.num_devices, is_colocated=cluster.is_colocated),
        rollout_log_sd=SHAPE_LOG_SD,
        listed=(*made.listed, *_priors(rows_to_double)),
    )


def scaled_to(raw: StepParameters, work: Work, cluster: Cluster, totals: Totals) -> StepParameters:
    """Keep the shapes of ``raw`` and scale each side until ``cluster`` takes the measured totals.

    Raises:
        ForecastError: a side's total is not a positive number, or the configuration cannot run.
    """
    if not (totals.rollout_s > 0 and totals.train_s > 0):
        raise ForecastError(
            explain(
                "a side has no measured total",
                got=f"rollout {totals.rollout_s} s, training {totals.train_s} s",
                allowed="positive seconds of both",
                hint="an exposed wait is not generation: take the engine's own timer",
            )
        )
    sides = Sides(parameters=raw, work=work)
    rollout = totals.rollout_s / fmean(m.seconds for m in sides.makespans(cluster.rollout))
    train = totals.train_s / sides.train_s(cluster.train, is_colocated=cluster.is_colocated)
    made = raw.scaled(rollout=rollout, train=train)
    return replace(
        made,
        train=replace(made.train, carried_s=totals.carried_s),
        sync=SyncCosts(pause_s=totals.sync_s),
        switch=SwitchCosts(to_rollout_s=totals.switch_s),
        train_log_sd=TOTAL_LOG_SD,
        rollout_log_sd=TOTAL_LOG_SD,
        listed=tuple(
            Parameter(name=name, value=value, unit=unit, source=Source.MEASURED, where=where)
            for name, value, unit, where in (
                ("rollout scale", rollout, "1", "rollout total"),
                ("train scale", train, "1", "training total"),
                ("weights", totals.sync_s, "s", "weight_sync total"),
                ("mode switch", totals.switch_s, "s", "mode_switch total"),
                ("carried", totals.carried_s, "s", "what no side explains"),
            )
            if value > 0
        ),
    )


def _priors(rows_to_double: float) -> tuple[Parameter, ...]:
    """What a total cannot tell."""
    return (
        Parameter(name="rows to double", value=rows_to_double, unit="rows", source=Source.FORECAST, where="prior"),
        Parameter(
            name="training's exponent of devices",
            value=SHARED_TO_OWN[0],
            unit="1",
            source=Source.PUBLISHED,
            where=f"verl docs/advance/fully_async.md; {SAME_MODE[0]} within one mode",
        ),
    )
