"""The cheap rung before a trial: a replay of the one side that its change touches, where that is worth its price.

::

    Forecasted -> TrialStarted -> touches one side? cheaper with a replay? --no--> launches of both arms
                                        | yes
                                    replay, Screened --a gain----------> a few whole steps of the candidate
                                        |        '----may be a gain----> launches of both arms
                                        '--lost--> TrialEnded, nothing launched

The surprise: not every change is screened. A replay that settles nothing is paid on top, and where it has to start a
process that takes as long as 20 steps, even one that ends the trial saves little; `is_worth` weighs both.
"""

import math
import time
from dataclasses import dataclass
from statistics import NormalDist
from typing import final

from steptune.core.change import Change
from steptune.core.errors import StepTuneError
from steptune.core.event import Screened
from steptune.core.forecast import Forecast
from steptune.core.framework import ReplaysSides, SideReplay
from steptune.core.knob import Effect
from steptune.core.phase import Role
from steptune.decide.screen import SCREEN_LOOKS, judge_screen, losing_line
from steptune.forecast.interval import Z_80
from steptune.stats.noise import worth_frac
from steptune.trial.one_sided import side_touched
from steptune.tune.context import Context
from steptune.tune.measured_side import Incumbent, incumbent_of, side_spread

SCREEN_WARM_UPS = 2
"""Steps of each arm that a replay is expected to drop."""

EXPECTED_PAIRS = 8
"""Pairs that a replay is expected to take (bench/ladder.py: 5 to 7 in the mean)."""

UNPRICED_LOSS_CHANCE = 0.5
"""Chance that a change without a forecast is lost. Prior: half of the levers of an ablation."""

STANDARD = NormalDist()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """What a trial is expected to take, in steps of the baseline: ``Prices(full=42.0, few=9.0)``."""

    full: float
    """Both arms in turn."""
    few: float
    """A few whole steps of the candidate, after a replay that has shown a gain."""


def screen(
    context: Context,
    *,
    number: int,
    change: Change,
    incumbent: Change,
    incumbent_ratio: float,
    forecast: Forecast,
    prices: Prices,
) -> Screened | None:
    """Return the screening of trial ``number``: an earlier process's, a fresh one, or None where there is none.

    ``incumbent_ratio``: incumbent / baseline of the objective.
    """
    earlier = context.state.screening_of(number, change.signature)
    if earlier is not None:
        return earlier
    side = replayable_side(context, change, incumbent)
    if side is None:
        return None
    measured = incumbent_of(context.state, incumbent.signature, side)
    seconds = _expected_s(context, measured)
    step_s = context.baseline.step_time.value
    wanted = incumbent_ratio * (1 - _worth(context))
    after_gain = prices.few if may_be_short(change) else prices.full
    is_dear = not is_worth(seconds / step_s, prices.full, after_gain, loss_chance(forecast, wanted))
    if seconds > context.budget.wall_left_s() or is_dear:
        return None
    context.progress.say(f"trial {number}: {side}-only replay of the recorded batches first")
    event = replay_of(context, number=number, change=change, incumbent=incumbent, side=side, measured=measured)
    context.record(event)
    context.progress.say(f"trial {number}: {event.because}")
    return event


def may_be_short(change: Change) -> bool:
    """Return whether a replay may shorten its trial. Precision and staleness are watched for all steps of the plan."""
    return change.effect is Effect.NONE


def is_worth(replay: float, full: float, after_gain: float, lost: float) -> bool:
    """Return whether a replay and what follows it are expected to cost less than the trial without one.

    ``lost`` is the chance that the replay ends the trial; all others are steps.

    Example: 17 steps of replay, half of the time 9 more, against a trial of 42: 21.5 < 42, so it is.
    """
    return replay + (1 - lost) * after_gain < full


def loss_chance(forecast: Forecast, wanted: float) -> float:
    """Return the chance that the ratio to the baseline is not below ``wanted``, by the forecast's 80 % interval."""
    low, high = forecast.ratio.low, forecast.ratio.high
    if forecast.refused is not None or low is None or high is None or not 0 < low < high:
        return UNPRICED_LOSS_CHANCE
    sd = math.log(high / low) / (2 * Z_80)
    return 1 - STANDARD.cdf(math.log(wanted / forecast.ratio.value) / sd)


def replayable_side(context: Context, change: Change, incumbent: Change) -> Role | None:
    """Return the only side that the change touches, if it can be replayed under both configurations."""
    framework, base = context.framework, context.baseline_settings
    if not isinstance(framework, ReplaysSides):
        return None
    ours, theirs = change.applied_to(base), incumbent.applied_to(base)
    moved = [spec for spec in context.specs if ours[spec.name] != theirs[spec.name]]
    side = side_touched(moved, context.planned(ours), context.planned(theirs))
    can = all(side in framework.replayable_sides(context.job, settings) for settings in (ours, theirs))
    return side if can else None


def _expected_s(context: Context, measured: Incumbent) -> float:
    """Return what a replay is expected to take: a start-up if one is needed, and both arms' part of the step."""
    return _start_up_s(context) + 2 * (SCREEN_WARM_UPS + EXPECTED_PAIRS) * measured.booked_s


def _start_up_s(context: Context) -> float:
    if isinstance(context.framework, ReplaysSides) and context.framework.is_ready_to_replay():
        return 0.0
    step_s = context.baseline.step_time.value
    return context.runs.start_up_steps(step_s) * step_s


def _worth(context: Context) -> float:
    noise = context.baseline.noise
    return (worth_frac(noise) if noise else None) or 0.0


def replay_of(
    context: Context, *, number: int, change: Change, incumbent: Change, side: Role, measured: Incumbent
) -> Screened:
    """Replay both arms and judge; a replay that fails is told and settles nothing."""
    framework, noise = context.framework, context.baseline.noise
    assert isinstance(framework, ReplaysSides), "only such a framework is asked"
    assert noise is not None, "a measured profile has a noise floor"
    base, spread = context.baseline_settings, side_spread(context.state, side)
    ours, theirs = change.applied_to(base), incumbent.applied_to(base)
    devices_ratio = context.weight(ours) / context.weight(theirs)
    wanted = SideReplay(
        side=side,
        incumbent=dict(theirs),
        candidate=dict(ours),
        batches_dir=str(context.batches_dir),
        looks=SCREEN_LOOKS,
        line=losing_line(measured.booked_s / measured.step_s, devices_ratio, _worth(context)),
        spread=spread,
        max_s=max(0.0, context.budget.wall_left_s() - _start_up_s(context)),
    )
    started_s, times, problem = time.monotonic(), None, ""
    try:
        times = framework.replay_side(context.job, wanted, context.run_path("screens", f"{number:03d}"))
    except (StepTuneError, MemoryError) as error:
        problem = f"{type(error).__name__}: {error}"
    judged = judge_screen(
        times,
        incumbent_step_s=measured.step_s,
        booked_s=measured.booked_s,
        devices_ratio=devices_ratio,
        noise=noise,
        spread=spread,
    )
    wall_s = time.monotonic() - started_s
    return Screened(
        number=number,
        signature=change.signature,
        side=side,
        times=times,
        problem=problem,
        incumbent_step_s=measured.step_s,
        booked_s=measured.booked_s,
        devices_ratio=devices_ratio,
        ratio=judged.ratio,
        goes_on=judged.goes_on,
        because=judged.because,
        cost_wall_s=wall_s,
        cost_device_s=wall_s * context.job.devices.num_cores,
    )
