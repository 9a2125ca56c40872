"""Step time and device-seconds per step side by side, and the rule that ties them: fewer devices at no slower step.

Where the job counts device-seconds, a change that makes the step longer than the baseline's is no candidate, however
many devices it gives back: `no_slower_chance` keeps it from being chosen, `step_ratio` from being adopted.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from steptune.core.change import Change
from steptune.core.estimate import Estimate, Source
from steptune.core.job import Objective
from steptune.core.knob import Settings
from steptune.core.objectives import ObjectiveForecast, ObjectiveGain
from steptune.core.work import objective_weight
from steptune.forecast.interval import Z_80, RatioInterval
from steptune.stats.intervals import mean_estimate
from steptune.tune.context import Context
from steptune.tune.launches import Blocks, launch_ratio, steps_of
from steptune.tune.search_state import SearchState

STANDARD = NormalDist()
DEVICE_S = "device-s"
"""Unit of device-seconds."""


def no_slower_chance(objective: Objective, step: RatioInterval) -> float:
    """Return the chance that a step forecast at ``step`` of the baseline's is no slower; 1 where time is the objective.

    Example: 0.9 (0.8 to 1.0): half the 80 % interval is 0.11 of the log, so 1 lies 1.2 deviations above: 0.89.
    """
    if objective is Objective.STEP_TIME:
        return 1.0
    sd = math.log(step.high / step.low) / (2 * Z_80)
    return float(step.mid <= 1) if not sd > 0 else STANDARD.cdf(-math.log(step.mid) / sd)


def step_ratio(context: Context, ratio: Estimate | None, found: SearchState, change: Change) -> Estimate | None:
    """Return the step time / the baseline's of a trial whose ratio to the incumbent is ``ratio``.

    None where the objective is the step time itself, or nothing was measured.
    """
    if ratio is None or context.job.objective is Objective.STEP_TIME:
        return None
    scale = found.incumbent_ratio / context.weight(change.applied_to(context.baseline_settings))
    return Estimate(
        value=ratio.value * scale,
        low=None if ratio.low is None else ratio.low * scale,
        high=None if ratio.high is None else ratio.high * scale,
        unit="x",
        source=Source.DERIVED,
        n=ratio.n,
        note="step time / the baseline's",
    )


def gains(
    context: Context, launches: Sequence[Blocks], baseline: Settings, winner: Settings
) -> tuple[ObjectiveGain, ...]:
    """Return what the confirmation's launches (first arm the baseline, last the winner) say of both objectives."""
    planned = [context.planned(each) for each in (baseline, winner)]
    num_arms, made = len(launches[0]), list[ObjectiveGain]()
    for objective in Objective:
        weights = [1.0] * (num_arms - 1) + [objective_weight(objective, planned[1], planned[0])]
        counts = [1.0, 1.0] if objective is Objective.STEP_TIME else [work.num_devices for work in planned]
        unit = "s" if objective is Objective.STEP_TIME else DEVICE_S
        base, tuned = (
            mean_estimate([count * step.step_time_s for step in steps_of(launches, arm)], unit)
            for arm, count in ((0, counts[0]), (num_arms - 1, counts[1]))
        )
        speedup = launch_ratio(launches, 0, num_arms - 1, weights)
        made.append(ObjectiveGain(objective=objective, baseline=base, tuned=tuned, speedup=speedup))
    return tuple(made)


Candidate = tuple[Change, RatioInterval, float]
"""A change, its step / the baseline's, and its devices / the baseline's."""


def best_by_objective(candidates: Sequence[Candidate]) -> tuple[ObjectiveForecast, ...]:
    """Return, for each objective, the change that is forecast best; none where nothing beats the baseline."""
    found: list[ObjectiveForecast] = []
    for objective in Objective:
        counts_devices = objective is Objective.DEVICE_SECONDS_PER_STEP
        fit = [each for each in candidates if each[1].mid <= 1] if counts_devices else candidates
        best = min(fit, key=lambda each: each[1].mid * (each[2] if counts_devices else 1.0), default=None)
        if best is not None and best[1].mid * (best[2] if counts_devices else 1.0) < 1:
            found.append(
                ObjectiveForecast(
                    objective=objective, change=best[0], step_ratio=_ratio(best[1], 1.0), device_ratio=_ratio(*best[1:])
                )
            )
    return tuple(found)


def _ratio(step: RatioInterval, weight: float) -> Estimate:
    return Estimate(
        value=step.mid * weight,
        low=step.low * weight,
        high=step.high * weight,
        unit="x",
        source=Source.FORECAST,
        note="80 % interval",
    )
