"""When a running trial cannot win any more, by an interval valid under repeated looks (`stats.sequential`)."""

from steptune.core.profile import NoiseFloor
from steptune.decide.gain import cannot_beat
from steptune.stats.intervals import Interval
from steptune.stats.noise import worth_frac


def cannot_win(ratio_so_far: Interval, noise: NoiseFloor) -> bool:
    """Return whether a running trial's ratio to its incumbent can no longer end as a gain worth having.

    ``ratio_so_far`` must come from `sequential_ratio_interval`: a plain interval looked at after every block
    stops good changes far too often. With a broken noise floor no trial can win.
    """
    worth = worth_frac(noise)
    return worth is None or cannot_beat(ratio_so_far.low, worth)
