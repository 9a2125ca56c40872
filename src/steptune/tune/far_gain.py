"""Which trials run a few steps of the candidate alone, because its gain is forecast to lie beyond any drift.

Half of a trial's steps are the incumbent's, and they are the long ones. They were recorded before; what they cannot
tell is how the machine has changed since, which matters for a gain of 5 % and not for one of 50 %.
"""

import math
from collections.abc import Callable, Sequence

from steptune.core.forecast import Forecast
from steptune.core.job import Objective
from steptune.core.knob import Effect
from steptune.core.profile import NoiseFloor
from steptune.decide.beyond_drift import is_beyond_drift, worst_case
from steptune.guard.gaps import MIN_STEPS
from steptune.stats.noise import worth_frac
from steptune.trial.blocks import BlockPlan, Pair
from steptune.tune.gather import TRIAL_PLAN

FEW_STEPS_PLAN = BlockPlan(max_pairs=1, kept_steps=MIN_STEPS, rehearse_s=0.0)
"""Whole steps of the candidate alone: as few as every guard can judge."""


def is_far(slow_end: float, incumbent_ratio: float, noise: NoiseFloor | None, objective: Objective) -> bool:
    """Return whether a forecast whose slow end is ``slow_end`` (to the baseline) gains more than any drift.

    Where the objective counts devices never: no slower a step has to be shown by both arms.
    """
    worth = worth_frac(noise) if noise else None
    if worth is None or objective is Objective.DEVICE_SECONDS_PER_STEP:
        return False
    return is_beyond_drift(slow_end / incumbent_ratio, worth)


def slow_end(forecast: Forecast) -> float:
    """Return the slow end of a forecast ratio; infinite where there is none."""
    high = forecast.ratio.high
    return math.inf if forecast.refused is not None or high is None else high


def far_lead(noise: NoiseFloor, devices_ratio: float) -> Callable[[Sequence[Pair]], bool]:
    """Return what tells that the one block of a candidate beside recorded steps lies beyond any drift."""
    worth = worth_frac(noise)
    return lambda pairs: (
        worth is not None
        and is_beyond_drift(pairs[-1].ratio * devices_ratio * worst_case(len(pairs[-1].candidate), noise), worth)
    )


def steps_watched(effect: Effect, plan: BlockPlan) -> int:
    """Return how many steps guards must see of a candidate whose speed is clear before.

    Precision and staleness show over steps: all of the plan's, and where it is few steps all that a clear gain has.
    """
    whole = TRIAL_PLAN if plan == FEW_STEPS_PLAN else plan
    return 0 if effect is Effect.NONE else whole.max_pairs * whole.kept_steps
