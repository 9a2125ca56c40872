"""What a replay of one side says about a whole trial: that it is lost, or that it may go on. Pure.

::

    step of the incumbent   |---- the other side ----|------ this side ------|
    step of the candidate   |---- the other side ----|-- this side x ratio --|      ratio: pairs on the same batch

A replay only ever ends a trial: a gain is proven by whole steps, with every guard watching. So the error to fear is a
good change lost, and it is kept small on purpose: the side's part of the step is the larger of what the replay and what
the incumbent's own spans say, and the candidate is given the fast end of its interval.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import SideTimes
from steptune.core.profile import NoiseFloor
from steptune.decide.gain import cannot_beat
from steptune.stats.noise import worth_frac
from steptune.stats.ratio import ratio_interval

SCREEN_CONFIDENCE = 0.9
"""Two-sided, so that a change whose gain is just worth having is lost in 5 % of replays, a larger one more rarely."""

MIN_SCREEN_PAIRS = 4
"""Pairs below which a replay settles nothing, as in a trial's first look."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """``Screening(ratio=<0.998 (0.990 to 1.006)>, goes_on=False, because="...")``."""

    ratio: Estimate | None
    """Candidate / incumbent of the whole step, in the objective; 90 %."""
    goes_on: bool
    because: str


def judge_screen(
    times: SideTimes | None, *, incumbent_step_s: float, booked_s: float, devices_ratio: float, noise: NoiseFloor
) -> Screening:
    """Return whether a trial may go on after its replay.

    ``booked_s`` is the side's part of the incumbent's step of ``incumbent_step_s`` by its own spans, ``devices_ratio``
    that of `core.trial.Trial`. A replay that failed, was too short or gave an impossible time settles nothing.
    """
    worth = worth_frac(noise)
    if times is None or worth is None or len(times.incumbent_s) < MIN_SCREEN_PAIRS:
        return Screening(ratio=None, goes_on=True, because="the replay settles nothing")
    try:
        side = ratio_interval(times.candidate_s, times.incumbent_s, SCREEN_CONFIDENCE)
    except ValueError as error:
        return Screening(ratio=None, goes_on=True, because=f"the replay settles nothing: {error}")
    part = min(1.0, max(fmean(times.incumbent_s), booked_s) / incumbent_step_s)
    value, low, high = ((1.0 - part * (1.0 - r)) * devices_ratio for r in (side.value, side.low, side.high))
    note = f"the other side taken as unchanged; {SCREEN_CONFIDENCE:.4g} interval"
    ratio = Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED, n=side.n, note=note)
    if cannot_beat(low, worth):
        return Screening(ratio=ratio, goes_on=False, because=f"no gain worth having: {ratio}, noise band {worth:.1%}")
    return Screening(ratio=ratio, goes_on=True, because=f"may be a gain: {ratio}, noise band {worth:.1%}")


def losing_line(part: float, devices_ratio: float, worth: float) -> float:
    """Return the side's ratio at which the whole candidate is just no gain worth having.

    Example: half of the step, a gain of 2 % worth having: 1 - 0.02 / 0.5 = 0.96. Below zero nothing can win.
    """
    return 1.0 - (1.0 - (1.0 - worth) / devices_ratio) / part if part > 0 else 1.0
