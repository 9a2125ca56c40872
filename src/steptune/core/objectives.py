"""Both things that a tuner can make small, side by side: whichever was asked for, the other is shown."""

from steptune.core.change import Change
from steptune.core.estimate import Estimate
from steptune.core.job import Objective
from steptune.core.records import Record


class ObjectiveGain(Record):
    """What the winner does to one objective.

    Example: ``ObjectiveGain(objective="step_time", baseline=Estimate(1.02 s), tuned=Estimate(0.36 s),
    speedup=Estimate(2.8 x))``.
    """

    objective: Objective
    baseline: Estimate
    """Of a step: seconds, or device-seconds."""
    tuned: Estimate
    speedup: Estimate
    """Baseline / tuned over fresh launches."""


class ObjectiveForecast(Record):
    """The change that is forecast best for one objective, and what it would do to both.

    Example: for device-seconds, one thread: ``step_ratio`` 0.95 and ``device_ratio`` 0.48.
    """

    objective: Objective
    change: Change
    step_ratio: Estimate
    """Forecast / baseline seconds per step, 80 % interval."""
    device_ratio: Estimate
    """Forecast / baseline device-seconds per step, 80 % interval."""
