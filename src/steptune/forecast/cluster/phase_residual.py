"""What trials teach about one phase at a time: a correction per knob and phase, and a narrower interval for it.

A step's residual cannot tell a decode curve that is wrong from a reduction that is; a side's own seconds can. The same
shrunk regression as for whole steps (`residual.learn`) runs once per phase on log errors of that phase's ratio to the
baseline, so what the baseline's calibration got wrong cancels. The surprise: only phases in which a side *works* teach
its prices; a wait says nothing about them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.residual import Residuals, learn

TaughtPhase = Literal["rollout", "train", "weight_sync"]

TAUGHT: tuple[TaughtPhase, ...] = ("rollout", "train", "weight_sync")
"""Phases with prices of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTrial:
    """One finished trial.

    Example: packing was forecast to train in 0.70 of the time and took 0.77::

        PhaseTrial(change=..., forecast_ratio={"train": 0.70}, measured_ratio={"train": 0.77})
    """

    change: Change
    forecast_ratio: Mapping[TaughtPhase, float]
    """Forecast / baseline busy seconds of the phase, before any residual."""
    measured_ratio: Mapping[TaughtPhase, float]


def learn_phases(trials: Sequence[PhaseTrial], noise: float) -> dict[TaughtPhase, Residuals]:
    """Return the residuals of every phase that a trial measured. ``noise`` is a log standard deviation."""
    learnt: dict[TaughtPhase, Residuals] = {}
    for phase in TAUGHT:
        history = [
            LearntFrom(
                change=trial.change,
                raw_forecast_ratio=trial.forecast_ratio[phase],
                measured_ratio=trial.measured_ratio[phase],
            )
            for trial in trials
            if phase in trial.forecast_ratio and phase in trial.measured_ratio
        ]
        if history:
            learnt[phase] = learn(history, noise)
    return learnt


def corrected(parameters: StepParameters, residuals: Mapping[TaughtPhase, Residuals], change: Change) -> StepParameters:
    """Return the prices under ``change`` as trials have corrected them, with what is left to doubt."""
    factors = {phase: math.exp(residuals[phase].log_correction(change)) for phase in residuals}
    scaled = parameters.scaled(
        rollout=factors.get("rollout", 1.0), train=factors.get("train", 1.0), sync=factors.get("weight_sync", 1.0)
    )
    return replace(
        scaled,
        rollout_log_sd=_log_sd(parameters.rollout_log_sd, residuals.get("rollout"), change),
        train_log_sd=_log_sd(parameters.train_log_sd, residuals.get("train"), change),
        sync_log_sd=_log_sd(parameters.sync_log_sd, residuals.get("weight_sync"), change),
    )


def _log_sd(price_sd: float, residuals: Residuals | None, change: Change) -> float:
    """Return the price's own doubt with the move's beside it; moves nobody tried keep the prior's."""
    return price_sd if residuals is None else math.hypot(price_sd, math.sqrt(residuals.variance(change)))
