"""The cheap rung before a trial: a replay of the one side that its change touches, where that is worth its price.

::

    Forecasted -> TrialStarted -> touches one side? likely enough to be lost? --no--> launches
                                        | yes
                                    replay, Screened --may be a gain--> launches
                                        '--lost--> TrialEnded, nothing launched

The surprise: a promising change is not screened at all. A replay only ends trials, so before a likely winner it would
be paid on top; `is_worth` weighs its price against the trial's by the chance, by the forecast, that the trial is lost.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import final

from steptune.core.change import Change
from steptune.core.errors import StepTuneError
from steptune.core.event import Screened
from steptune.core.forecast import Forecast
from steptune.core.framework import ReplaysSides, SideReplay
from steptune.core.phase import Role, is_child
from steptune.core.trial import Observation
from steptune.decide.screen import MIN_SCREEN_PAIRS, judge_screen, losing_line
from steptune.forecast.interval import Z_80
from steptune.stats.noise import worth_frac
from steptune.store.replay import SessionState
from steptune.trial.one_sided import side_touched
from steptune.tune.context import Context

SCREEN_PAIRS = 12
"""Pairs of a replay. At 3 % noise a step a pair spreads 4.2 %, twelve leave the side's ratio 2.2 % either way, half of
that of a step of which the side is a half: about the least gain that is worth having."""

SCREEN_WARM_UPS = 2
"""Steps of each arm that a replay is expected to drop."""

UNPRICED_LOSS_CHANCE = 0.5
"""Chance that a change without a forecast is lost. Prior: half of the levers of an ablation."""

STANDARD = NormalDist()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Incumbent:
    """What a side's part is taken of: ``Incumbent(step_s=1.02, booked_s=0.41)``."""

    step_s: float
    booked_s: float
    """Of it, the side by its own spans."""


def screen(
    context: Context, *, number: int, change: Change, incumbent: Change, forecast: Forecast, cost_steps: float
) -> Screened | None:
    """Return the screening of trial ``number``: an earlier process's, a fresh one, or None where there is none.

    ``cost_steps``: what the trial will take, in steps of the baseline.
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
    wanted = measured.step_s / step_s * (1 - _worth(context))
    if seconds > context.budget.wall_left_s() or not is_worth(seconds / step_s, cost_steps, forecast, wanted):
        return None
    context.progress.say(f"trial {number}: {side}-only replay of the recorded batches first")
    event = replay_of(context, number=number, change=change, incumbent=incumbent, side=side, measured=measured)
    context.record(event)
    context.progress.say(f"trial {number}: {event.because}")
    return event


def is_worth(replay_steps: float, trial_steps: float, forecast: Forecast, wanted: float) -> bool:
    """Return whether a replay is expected to save more than it costs.

    Example: 17 steps against a trial of 42 that is lost with a chance of 0.5: 17 < 21, so it is.
    """
    return replay_steps < loss_chance(forecast, wanted) * trial_steps


def loss_chance(forecast: Forecast, wanted: float) -> float:
    """Return the chance that the ratio to the baseline is not below ``wanted``, by the forecast's 80 % interval."""
    low, high = forecast.ratio.low, forecast.ratio.high
    if forecast.refused is not None or low is None or high is None or not 0 < low < high:
        return UNPRICED_LOSS_CHANCE
    sd = math.log(high / low) / (2 * Z_80)
    return 1 - STANDARD.cdf(math.log(wanted / forecast.ratio.value) / sd)


def incumbent_of(state: SessionState, signature: str, side: Role) -> Incumbent:
    """Return the incumbent's step and the side's booked part of it, as the journal has them."""
    steps = _steps_of(state, signature)
    return Incumbent(step_s=fmean(step.step_time_s for step in steps), booked_s=fmean(_booked(s, side) for s in steps))


def _steps_of(state: SessionState, signature: str) -> Sequence[Observation]:
    """Return an adopted candidate's own steps of its trial, else those of the A/A repeat."""
    for event in reversed(state.ended):
        if event.trial.change.signature == signature and event.trial.arms:
            return next(arm.observations for arm in event.trial.arms if arm.label == "candidate")
    return [step for arm in state.baseline_arms for step in arm.observations]


def _booked(step: Observation, side: Role) -> float:
    return math.fsum(
        span.seconds for span in step.spans if span.role == side and span.kind == "busy" and not is_child(span.phase)
    )


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
    """Return what a replay will take: one start-up, and both arms' part of the step."""
    return _start_up_s(context) + 2 * (SCREEN_WARM_UPS + SCREEN_PAIRS) * measured.booked_s


def _start_up_s(context: Context) -> float:
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
    base = context.baseline_settings
    ours, theirs = change.applied_to(base), incumbent.applied_to(base)
    devices_ratio = context.weight(ours) / context.weight(theirs)
    wanted = SideReplay(
        side=side,
        incumbent=dict(theirs),
        candidate=dict(ours),
        batches_dir=str(context.batches_dir),
        num_pairs=SCREEN_PAIRS,
        first_look=MIN_SCREEN_PAIRS,
        line=losing_line(measured.booked_s / measured.step_s, devices_ratio, _worth(context)),
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
