"""How training time answers to another number of devices, where only its total is known: a shrunk prior.

    time(new) / time(old) = (old devices / new devices) ^ exponent

An exponent of 1 is the linear model. It would have rejected a change that was 2.4 times as fast: in verl's published
fully asynchronous runs (https://github.com/verl-project/verl/blob/main/docs/advance/fully_async.md) training on half
of the devices, which it no longer shared, took 1.16, 1.18 and 0.99 times as long, and on a quarter 2.4 times.
Trials shrink the prior towards what this job shows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steptune.core.errors import explain
from steptune.forecast.curve import ForecastError

SHARED_TO_OWN = (0.27, 0.27)
"""Mean and standard deviation of the exponent when training leaves shared devices: ln 1.163 / ln 2, ln 1.177 / ln 2,
ln 0.995 / ln 2 and ln 2.394 / ln 4 of the rows above (update_actor, 7B on 32, 64 and 128 devices, 30B-A3B on 128)."""

SAME_MODE = (0.68, 0.35)
"""The same within one mode, from the neighbours among the same rows: shared 269.8, 133.4, 113.8 s on 32, 64, 128
devices; own 313.8, 157.0, 113.2 s on 16, 32, 64: exponents 1.02, 0.23, 1.00 and 0.47."""

MEASURED_LOG_SD = 0.03
"""Log error of one measured ratio of training times. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exponent:
    """``Exponent(mean=0.27, sd=0.27)``: half the devices take 1.21 times as long, 0.95 to 1.53 at 80 %."""

    mean: float
    sd: float

    def ratio(self, old_devices: float, new_devices: float) -> float:
        """Return new / old training time.

        Raises:
            ForecastError: a side has no devices.
        """
        if not (old_devices > 0 and new_devices > 0):
            raise ForecastError(
                explain(
                    "training needs devices",
                    got=f"{old_devices} and {new_devices}",
                    allowed="more than 0",
                    hint="give the trainer at least one",
                )
            )
        return (old_devices / new_devices) ** self.mean

    def log_sd(self, old_devices: float, new_devices: float) -> float:
        """Return the standard deviation of the ratio's log: nothing for the same devices."""
        return self.sd * abs(math.log(old_devices / new_devices))


def exponent(*, was_colocated: bool, is_colocated: bool, seen: Sequence[tuple[float, float]] = ()) -> Exponent:
    """Return the exponent, shrunk towards what trials of this kind of move showed.

    ``seen`` holds (log of old / new devices, log of new / old time). Gaussian posterior of a slope through zero.
    """
    mean, sd = SAME_MODE if was_colocated == is_colocated else SHARED_TO_OWN
    precision, weighted = 1 / sd**2, mean / sd**2
    for log_devices, log_time in seen:
        precision += log_devices**2 / MEASURED_LOG_SD**2
        weighted += log_devices * log_time / MEASURED_LOG_SD**2
    return Exponent(mean=weighted / precision, sd=math.sqrt(1 / precision))
