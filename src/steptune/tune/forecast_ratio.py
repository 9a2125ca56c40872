"""What a step is forecast to take of what is no candidate: a stage of a waterfall, best practice."""

from steptune.core.knob import Settings
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context


def forecast_ratio(context: Context, planned_baseline: PlannedWork, settings: Settings) -> float:
    """Return the forecast ratio to the baseline in the job's objective, by the profile alone.

    Raises:
        ForecastError: the profile has no price for it.
    """
    return forecast_change(
        profile=context.baseline,
        planned_baseline=planned_baseline,
        planned=context.planned(settings),
        change=NOTHING,
        history=(),
        total_memory_bytes=context.framework.total_memory_bytes(),
        headroom_frac=context.job.limits.memory_headroom_frac,
        objective=context.job.objective,
    ).ratio.value
