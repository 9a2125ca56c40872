"""The forecast of one change: pure and deterministic, so that `report --verify` can repeat it bit for bit.

Everything it depends on is an argument; sums use `math.fsum`, whose result does not depend on the Python version.
"""

import math
from collections.abc import Mapping

from steptune.core.change import Change
from steptune.core.estimate import Estimate, Source
from steptune.core.event import LearntFrom, Part
from steptune.core.forecast import Forecast, PhaseForecast
from steptune.core.job import Objective
from steptune.core.phase import Role, is_child, parent_phase
from steptune.core.profile import Profile
from steptune.core.records import content_hash
from steptune.core.work import PlannedWork, objective_weight
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import RatioInterval, apart, ratio_interval
from steptune.forecast.memory import fits, memory_peak
from steptune.forecast.model import ModelStep, fit
from steptune.forecast.parts import part_of
from steptune.forecast.residual import noise_sd
from steptune.forecast.side import Key
from steptune.forecast.step import StepTime, idle_by_role, lay_out
from steptune.forecast.taught import teach

INTERVAL_NOTE = "80 % interval"
"""Said on every forecast: intervals elsewhere are 95 %."""


def forecast_change(
    *,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: PlannedWork,
    change: Change,
    history: tuple[LearntFrom, ...],
    total_memory_bytes: int,
    headroom_frac: float,
    objective: Objective,
) -> Forecast:
    """Forecast what ``change`` does to the profiled job.

    Args:
        profile: the measured baseline with its cost curves.
        planned_baseline: one step's work of that baseline.
        planned: one step's work under the change, at the same (or at other) lengths.
        change: moves away from the baseline.
        history: finished trials, in order; empty for a first forecast.
        total_memory_bytes: memory the head-room refers to.
        headroom_frac: part of it that must stay free.
        objective: what the ratio is of.

    Returns:
        The forecast; with ``refused`` set and NaN for numbers where the profile does not support one.
    """
    taught = teach(history, noise_sd(profile.noise))
    try:
        model = fit(profile, planned_baseline)
        step = model.predict(planned)
    except ForecastError as error:
        return _refusal(profile, planned, change, str(error))
    from_baseline = apart(model, step, change, planned, planned_baseline)
    interval = ratio_interval(from_baseline, taught, noise_sd(profile.noise))
    corrected = _corrected(step, taught.factors(from_baseline.touched))
    measured_s = profile.step_time.value
    step_s = interval.mid * measured_s
    peak = memory_peak(profile, planned_baseline, planned)
    return Forecast(
        change=change,
        step_time=_estimate(interval, measured_s, "s"),
        ratio=_estimate(interval, objective_weight(objective, planned, planned_baseline), "x"),
        phases=_phases(corrected, step_s / corrected.step_s),
        idle_s={role.value: s * step_s / corrected.step_s for role, s in idle_by_role(corrected).items()},
        lag=planned.lag,
        memory_fits=fits(peak, total_memory_bytes=total_memory_bytes, headroom_frac=headroom_frac),
        memory_bytes=peak,
        num_free_parameters=model.calibration.num_free + taught.num_used(from_baseline.touched),
        profile_hash=content_hash(profile),
        trials_used=taught.trials,
    )


def _corrected(step: ModelStep, factors: Mapping[Part, float]) -> StepTime:
    """Lay the step out with its parts as trials have corrected them."""
    alone_s = {key: s * factors.get(part, 1.0) if (part := part_of(key)) else s for key, s in step.alone_s.items()}
    return lay_out(step.parts.schedule, alone_s)


def _estimate(ratio: RatioInterval, scale: float, unit: str) -> Estimate:
    return Estimate(
        value=ratio.mid * scale,
        low=ratio.low * scale,
        high=ratio.high * scale,
        unit=unit,
        source=Source.FORECAST,
        note=INTERVAL_NOTE,
    )


def _phases(step: StepTime, scale: float) -> tuple[PhaseForecast, ...]:
    """Return parents with their totals and the children inside them, scaled so that they make up the forecast step."""
    seconds: dict[Key, float] = {}
    parents = {(role, parent_phase(phase).value) for role, phase in step.seconds}
    for parent in parents:
        seconds[parent] = math.fsum(s for key, s in step.seconds.items() if _belongs(key, parent))
    seconds.update({key: s for key, s in step.seconds.items() if is_child(key[1])})
    return tuple(
        PhaseForecast(role=role.value, phase=phase, seconds=s * scale) for (role, phase), s in sorted(seconds.items())
    )


def _belongs(key: Key, parent: tuple[Role, str]) -> bool:
    return key[0] is parent[0] and parent_phase(key[1]).value == parent[1]


def _refusal(profile: Profile, planned: PlannedWork, change: Change, why: str) -> Forecast:
    unknown = {"value": math.nan, "source": Source.FORECAST, "note": "refused"}
    return Forecast(
        change=change,
        step_time=Estimate.model_validate({**unknown, "unit": "s"}),
        ratio=Estimate.model_validate({**unknown, "unit": "x"}),
        phases=(),
        lag=planned.lag,
        memory_fits=None,
        num_free_parameters=0,
        profile_hash=content_hash(profile),
        refused=why,
    )
