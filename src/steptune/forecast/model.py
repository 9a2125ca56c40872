"""The step-time model of one job: machine model, calibration and layout in time, before any residual.

Surprise: a forecast is a *ratio* of two model steps, so an error that baseline and candidate share cancels,
and the baseline forecast against itself is exactly 1.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.errors import explain
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.forecast.calibrate import Calibration, calibrate, calibrated
from steptune.forecast.curve import CostBook, ForecastError
from steptune.forecast.parts import PartSeconds, parts_of
from steptune.forecast.pool import pool
from steptune.forecast.side import Key, SideCosts, side_costs
from steptune.forecast.step import StepTime, lay_out


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStep:
    """A step as the model has it: ``ModelStep(time=StepTime(step_s=0.71, ...), stretched_frac=0.0)``."""

    time: StepTime
    parts: PartSeconds
    """The same by what trials teach of, undisturbed."""
    alone_s: dict[Key, float]
    """The same by phase, undisturbed."""
    stretched_frac: float
    """Part of the step priced beyond measured sizes, each part times its reach."""

    @property
    def overlapped_frac(self) -> float:
        """Part of the step during which both sides work, contention excluded."""
        return self.time.overlapped_s / self.time.step_s


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StepModel:
    """The model fitted to one profile."""

    book: CostBook
    calibration: Calibration
    baseline: ModelStep
    probe_noise_sd: dict[str, float]
    """How noisy the probe of a primitive was; see `pool`."""

    def predict(self, planned: PlannedWork) -> ModelStep:
        """Return the model's step for a plan.

        Raises:
            ForecastError: a piece of it has no price, or the step is not a positive number of seconds.
        """
        return _predict(planned.schedule, side_costs(planned, self.book), self.calibration.under(planned.schedule))

    def ratio(self, step: ModelStep) -> float:
        """Return model step time of a plan / model step time of the baseline."""
        return step.parts.step_s / self.baseline.parts.step_s


def fit(profile: Profile, planned_baseline: PlannedWork) -> StepModel:
    """Calibrate the model on the baseline's profile.

    Raises:
        ForecastError: the profile lacks a curve the baseline needs, or its plan cannot be its own.
    """
    if (profile.schedule == "async") != (planned_baseline.schedule == "one_step_off"):
        raise ForecastError(
            explain(
                "profile and baseline plan disagree on the schedule",
                got=f"{profile.schedule} and {planned_baseline.schedule}",
                allowed="sync with sync, async with one_step_off",
                hint="plan the work of the configuration that was profiled",
            )
        )
    pooled = pool(profile.costs)
    book = CostBook(curves=pooled.curves)
    costs = side_costs(planned_baseline, book)
    calibration = calibrate(profile, planned_baseline, costs)
    baseline = _predict(planned_baseline.schedule, costs, calibration)
    return StepModel(book=book, calibration=calibration, baseline=baseline, probe_noise_sd=pooled.noise_sd)


def _predict(schedule: Literal["sync", "one_step_off"], costs: SideCosts, calibration: Calibration) -> ModelStep:
    alone_s = calibrated(costs, calibration)
    time = lay_out(schedule, alone_s)
    if not (math.isfinite(time.step_s) and time.step_s > 0):
        raise ForecastError(
            f"the model gives a step of {time.step_s} s; hint: look for NaN in the cost curves or the plan"
        )
    stretched_s = math.fsum(s * calibration.factor(key) for key, s in costs.stretched_s.items())
    return ModelStep(
        time=time, parts=parts_of(schedule, alone_s), alone_s=alone_s, stretched_frac=stretched_s / time.step_s
    )
