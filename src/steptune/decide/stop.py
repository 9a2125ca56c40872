"""When to stop: nothing left to try can beat the noise, or a running trial cannot win any more.

Both err on the side of trying: a forecast counts by its optimistic end, and a running trial only by an
interval that stays valid under repeated looks (`stats.sequential`).
"""

from collections.abc import Iterable

from steptune.core.forecast import Forecast
from steptune.core.profile import NoiseFloor
from steptune.decide.gain import cannot_beat
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import Interval
from steptune.stats.noise import noise_band_frac


def can_any_win(forecasts: Iterable[Forecast], *, incumbent_ratio: float, noise: NoiseFloor) -> bool:
    """Return whether any forecast's optimistic end beats the incumbent by more than the noise band.

    ``incumbent_ratio`` is the incumbent's step time / the baseline's, as the forecasts' ratios are. With a
    broken noise floor nothing could be claimed, so nothing can win.
    """
    band_frac = noise_band_frac(noise)
    if band_frac is None:
        return False
    return any(_can_win(forecast, incumbent_ratio, band_frac) for forecast in forecasts)


def _can_win(forecast: Forecast, incumbent_ratio: float, band_frac: float) -> bool:
    if forecast.refused is not None or forecast.memory_fits is False:
        return False
    ratio = forecast.ratio
    known = finite_or_none((ratio.value if ratio.low is None else ratio.low,))
    return known is not None and not cannot_beat(known[0] / incumbent_ratio, band_frac)


def cannot_win(ratio_so_far: Interval, noise: NoiseFloor) -> bool:
    """Return whether a running trial's ratio to its incumbent can no longer end above the noise band.

    ``ratio_so_far`` must come from `sequential_ratio_interval`: a plain interval looked at after every block
    stops good changes far too often. With a broken noise floor no trial can win.
    """
    band_frac = noise_band_frac(noise)
    return band_frac is None or cannot_beat(ratio_so_far.low, band_frac)
