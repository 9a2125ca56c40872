"""What a replay of one side says about a whole trial: that it is lost, that it leads, or that it may go on. Pure.

::

    step of the incumbent   |---- the other side ----|------ this side ------|
    step of the candidate   |---- the other side ----|-- this side x ratio --|      ratio: pairs on the same batch

A replay ends a trial or shortens it: where it has shown a gain, a few whole steps of the candidate alone, with every
guard watching, have to bear it out (`decide.trial`). It adopts nothing by itself. A good change that is lost is the
error to fear, and it is kept small on purpose: the side's part of the step is the larger of what the replay and what
the incumbent's own spans say, and the candidate is given the fast end of its interval.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import SideTimes
from steptune.core.profile import NoiseFloor, PairSpread
from steptune.decide.gain import cannot_beat
from steptune.stats.noise import worth_frac
from steptune.stats.pooled import pooled_ratio_interval

SCREEN_CONFIDENCE = 0.9
"""Two-sided, so that a change whose gain is just worth having is lost in 5 % of replays, a larger one more rarely."""

SCREEN_LOOKS = (3, 5, 8, 12, 18, 27)
"""Pairs after which a replay may end. At 3 % noise a step a pair spreads 4.2 %; with the A/A repeat's scatter pooled
in, three pairs settle what lies 7 % of the side from the line, twelve what lies 3 % from it, 27 what lies 2 % from it.
A pair costs one step where a pair of blocks costs eight, so it pays to go on for long before a trial begins."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """``Screening(ratio=<0.998 (0.990 to 1.006)>, goes_on=False, because="...")``."""

    ratio: Estimate | None
    """Candidate / incumbent of the whole step, in the objective; 90 %."""
    goes_on: bool
    because: str


def judge_screen(
    times: SideTimes | None,
    *,
    incumbent_step_s: float,
    booked_s: float,
    devices_ratio: float,
    noise: NoiseFloor,
    spread: PairSpread | None,
) -> Screening:
    """Return whether a trial may go on after its replay.

    ``booked_s`` is the side's part of the incumbent's step of ``incumbent_step_s`` by its own spans, ``devices_ratio``
    that of `core.trial.Trial`, ``spread`` the side's scatter in the A/A repeat. A replay that failed, was too short or
    gave an impossible time settles nothing.
    """
    worth = worth_frac(noise)
    if times is None or worth is None or len(times.incumbent_s) < SCREEN_LOOKS[0]:
        return Screening(ratio=None, goes_on=True, because="the replay settles nothing")
    try:
        side = pooled_ratio_interval(times.candidate_s, times.incumbent_s, SCREEN_CONFIDENCE, spread)
    except ValueError as error:
        return Screening(ratio=None, goes_on=True, because=f"the replay settles nothing: {error}")
    part = min(1.0, max(fmean(times.incumbent_s), booked_s) / incumbent_step_s)
    value, low, high = ((1.0 - part * (1.0 - r)) * devices_ratio for r in (side.value, side.low, side.high))
    note = f"the other side taken as unchanged; {SCREEN_CONFIDENCE:.4g} interval"
    ratio = Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED, n=side.n, note=note)
    if cannot_beat(low, worth):
        return Screening(ratio=ratio, goes_on=False, because=f"no gain worth having: {ratio}, noise band {worth:.1%}")
    kind = "a gain by this side alone" if leads(ratio, worth) else "may be a gain"
    return Screening(ratio=ratio, goes_on=True, because=f"{kind}: {ratio}, noise band {worth:.1%}")


def leads(ratio: Estimate | None, worth: float) -> bool:
    """Return whether even the slow end of a replay's interval is a gain worth having: a chance of 5 % at the most."""
    return ratio is not None and ratio.high is not None and ratio.high < 1.0 - worth


def losing_line(part: float, devices_ratio: float, worth: float) -> float:
    """Return the side's ratio at which the whole candidate is just no gain worth having.

    Example: half of the step, a gain of 2 % worth having: 1 - 0.02 / 0.5 = 0.96. Below zero nothing can win.
    """
    return 1.0 - (1.0 - (1.0 - worth) / devices_ratio) / part if part > 0 else 1.0
