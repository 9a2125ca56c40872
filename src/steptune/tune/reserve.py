"""What must be left of the budget when a trial begins: each stage's own share.

The reserve is what follows the search, at this session's own costs: start-ups as measured so far, a step and an
evaluation of the profile's, blocks as long as the noise asks for. It is asked for again before every trial, so that it
has learnt from the last. The surprise: which winner it is for. Until one leads it is the best forecast.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.event import TrialEnded
from steptune.core.job import Objective
from steptune.core.knob import Effect
from steptune.decide.owed import OWED_OF_TRAINING, REWARD_RATE
from steptune.forecast.curve import ForecastError
from steptune.trial.blocks import WARMUP_STEPS
from steptune.tune.baseline import NOTHING
from steptune.tune.blame import moves_of
from steptune.tune.conclude import owes_reward
from steptune.tune.context import Context, settings_of
from steptune.tune.far_gain import FEW_STEPS_PLAN
from steptune.tune.forecast_ratio import forecast_ratio
from steptune.tune.gather import plan_for
from steptune.tune.plans import CONFIRM_PLAN
from steptune.tune.reward import num_beside
from steptune.tune.runs import UNKNOWN_START_UP_STEPS
from steptune.tune.search_state import SearchState
from steptune.tune.space import Space
from steptune.tune.stage_cost import UnitCosts, Winner, confirm_s, least_trial_s, reward_s, waterfall_s
from steptune.tune.step_guards import ages_of
from steptune.tune.trial_cost import slow_starts

UNKNOWN_EVALUATION_STEPS = 2.0
"""An evaluation in baseline steps where the profile did not time it (journals of older code)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """Wall seconds of each stage after the search: ``Reserve(waterfall_s=110, reward_s=155, confirm_s=140)``.

    Each is that stage's own share: what one leaves goes to the next, what it lacks it does not take from that.
    """

    waterfall_s: float
    reward_s: float
    """For the reward test, which only some changes owe."""
    confirm_s: float
    least_trial_s: float = 0.0
    """What the shortest trial takes; not part of the reserve, but with less beside it none is begun."""

    def of(self, change: Change | None) -> float:
        """Return what ``change`` needs kept; None is a search without a winner."""
        owes = change is not None and owes_reward(change.effect)
        return self.waterfall_s + self.confirm_s + (self.reward_s if owes else 0.0)

    def after_pruning(self, change: Change | None) -> float:
        """Return what ``change`` needs once its waterfall is measured."""
        return self.of(change) - self.waterfall_s

    @property
    def whole_s(self) -> float:
        """What lets any change be tried."""
        return self.waterfall_s + self.reward_s + self.confirm_s


def reserve(context: Context, space: Space, found: SearchState) -> Reserve:
    """Return what is kept now: for the incumbent, or for the best forecast while nothing leads."""
    unit = unit_costs(context, space)
    event = found.incumbent
    change, ratio = (event.trial.change, found.incumbent_ratio) if event else _best_forecast(space, found)
    winner = _winner(context, change, ratio, event)
    return Reserve(
        waterfall_s=waterfall_s(unit, winner),
        reward_s=_reward_s(context, unit, winner, change),
        confirm_s=confirm_s(unit, winner),
        least_trial_s=least_trial_s(unit, winner.ratio, FEW_STEPS_PLAN.kept_steps),
    )


def unit_costs(context: Context, space: Space) -> UnitCosts:
    """Return what the session has measured so far."""
    baseline, state = context.baseline, context.state
    step_s = baseline.step_time.value
    start_up_s = context.runs.start_up_s if context.runs.start_up_s is not None else state.start_up_s
    return UnitCosts(
        step_s=step_s,
        start_up_s=UNKNOWN_START_UP_STEPS * step_s if start_up_s is None else start_up_s,
        evaluate_s=UNKNOWN_EVALUATION_STEPS * step_s if state.evaluate_s is None else state.evaluate_s,
        best_practice_ratio=_best_practice_ratio(context, space),
        confirm_plan=CONFIRM_PLAN if baseline.noise is None else plan_for(CONFIRM_PLAN, baseline.noise),
    )


def reward_test_s(context: Context, space: Space, found: SearchState, num_pairs: int) -> float:
    """Return the seconds of ``num_pairs`` of the incumbent's reward test."""
    assert found.incumbent is not None, "only a winner is tested"
    change = found.incumbent.trial.change
    winner = _winner(context, change, found.incumbent_ratio, found.incumbent)
    return _reward_s(context, unit_costs(context, space), winner, change, num_pairs)


def _reward_s(context: Context, unit: UnitCosts, winner: Winner, change: Change, num_pairs: int | None = None) -> float:
    """Return the reward test's price; of one that the change does not owe, what the dearest would take.

    It is asked for beside changes that owe none, whether one that owes it may be tried.
    """
    effect = change.effect if owes_reward(change.effect) else Effect.STALENESS
    guard = context.job.guard
    return reward_s(
        unit,
        winner,
        guard,
        num_beside=num_beside(context, [context.baseline_settings, change.applied_to(context.baseline_settings)]),
        is_rate_owed=REWARD_RATE in OWED_OF_TRAINING[effect],
        num_pairs=guard.reward_seeds if num_pairs is None else num_pairs,
    )


def _winner(context: Context, change: Change, ratio: float, event: TrialEnded | None) -> Winner:
    """Return what is known of ``change`` before it is launched again: its trial's own steps, or what it may do."""
    if context.job.objective is not Objective.STEP_TIME:
        ratio = 1.0  # the ratio counts devices, and a step may be as long as the baseline's
    seen = [s for arm in event.trial.arms if arm.label == "candidate" for s in arm.observations] if event else []
    ages = ages_of(context.job)
    may_settle = context.job.limits.max_staleness if change.effect is Effect.STALENESS else 0
    settling = max(0, ages.steps_owed(seen) - WARMUP_STEPS) if seen else may_settle
    slow = slow_starts(context.baseline)
    return Winner(
        ratio=min(1.0, ratio),
        num_stages=len(change.moves) + 1,
        settling_steps=settling,
        dropped_steps=settling if any(step.queue is not None for step in seen) else 0,
        slow_start_s=sum(slow.get(move, 0.0) for move in moves_of(change)) * context.baseline.step_time.value,
    )


def _best_forecast(space: Space, found: SearchState) -> tuple[Change, float]:
    """Return the open change that is forecast fastest, with its ratio; without any price the first, no faster."""
    open_ones = (each for each in space.priced if found.is_open(space.proposal.changes[each.index]))
    best = min(open_ones, key=lambda each: each.raw_ratio * each.weight, default=None)
    if best is not None:
        return space.proposal.changes[best.index], best.raw_ratio
    return (space.proposal.changes[0] if space.proposal.changes else NOTHING), 1.0


def _best_practice_ratio(context: Context, space: Space) -> float:
    """Return what best practice's step takes of the baseline's by forecast, 1 where nobody knows."""
    if context.job.objective is not Objective.STEP_TIME:
        return 1.0
    settings = settings_of(context.started.best_practice_levers)
    try:
        ratio = forecast_ratio(context, space.planned_baseline, settings)
        return ratio if ratio > 0 else 1.0
    except ForecastError:
        return 1.0
