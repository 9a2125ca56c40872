"""How many leading steps are warm-up.

The second half of the run is taken as steady. A leading step is warm-up while it lies outside
median ± max(3 robust sd, 5 %) of that half, slow or fast (a ramp-up starts fast: fewer sequences in flight).
The first step inside the band ends the warm-up, and never more than half of the run is dropped.
"""

import statistics
from collections.abc import Sequence

from steptune.stats.finite import require_finite
from steptune.stats.noise import robust_sd

MIN_STEPS = 4
"""Steps below which warm-up cannot be told from noise: the steady half needs two."""

BAND_SDS = 3.0
"""Half-width of the steady band in robust standard deviations: 0.3 % of normal steps lie outside."""

BAND_FRAC = 0.05
"""Smallest half-width as a part of the median; run-to-run step times spread 5 % in public logs (needs study, S08)."""


def num_warmup_steps(step_times_s: Sequence[float]) -> int:
    """Return how many leading steps to drop: 0 for fewer than four steps, at most half otherwise.

    Raises:
        ValueError: a step time is missing or not finite.
    """
    times = require_finite(step_times_s, at_least=0)
    if len(times) < MIN_STEPS:
        return 0
    half = len(times) // 2
    steady = times[half:]
    centre = statistics.median(steady)
    width = max(BAND_SDS * robust_sd(steady), BAND_FRAC * abs(centre))
    inside = (index for index in range(half) if abs(times[index] - centre) <= width)
    return next(inside, half)
