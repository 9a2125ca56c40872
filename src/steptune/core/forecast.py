"""A forecast: written down before the trial that will score it."""

from steptune.core.change import Change
from steptune.core.estimate import Estimate
from steptune.core.lag import LagDistribution
from steptune.core.records import Record


class PhaseForecast(Record):
    """Forecast seconds per step of one role's phase."""

    role: str
    phase: str
    seconds: float


class Forecast(Record):
    """What a change would do.

    Example: packing alone: 0.71 s (0.66 to 0.77), ratio to baseline 0.70; fits; lag 0.
    """

    change: Change
    step_time: Estimate
    """Seconds per step with its 80 % interval."""
    ratio: Estimate
    """Forecast / baseline, 80 % interval, of the job's objective: step time, or device-seconds per step."""
    phases: tuple[PhaseForecast, ...]
    idle_s: dict[str, float] = {}
    """Forecast waiting per role and step."""
    lag: int
    """Most updates between sampling and training: a bound."""
    ages: LagDistribution | None = None
    """How old trained tokens will be at the profile's lengths; None where nobody asked."""
    memory_fits: bool | None
    """None when it is too close to call."""
    memory_bytes: Estimate | None = None
    num_free_parameters: int
    """Constants fitted on this job's profile or trials; priors are not counted."""
    profile_hash: str
    """Hash of the profile it was calibrated on."""
    trials_used: tuple[str, ...] = ()
    """Signatures of the trials its residuals learnt from; empty for a first forecast."""
    refused: str | None = None
    """Why no number can be given; the other fields are then meaningless and must not be shown."""
