"""What a trial will take, in steps of the baseline: the price of finding out.

::

    [start-up][warm-up] [block][block] [block][block] ...      incumbent and candidate in turn, each block after a
     none if the arm's run waits, or hot knobs suffice         rehearsal of its first step, which is paid for too

A gain forecast to be clear is taken to end its trial after two pairs, anything else to need all of them; one beyond
any drift (`far_gain`) takes a few steps of the candidate alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from steptune.core.change import Change
from steptune.core.job import Objective
from steptune.core.knob import KnobValue
from steptune.core.profile import START_UP, NoiseFloor, Profile
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan
from steptune.trial.clear_lead import MIN_PAIRS
from steptune.tune.blame import moves_of
from steptune.tune.context import Context, trial_spec
from steptune.tune.far_gain import FEW_STEPS_PLAN, is_far, steps_watched
from steptune.tune.gather import TRIAL_PLAN, clear_gain, plan_for
from steptune.tune.search_state import SearchState
from steptune.tune.suspicion import Moves


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrialCost:
    """Prices the trials that could come next; ask again after every trial."""

    start_up_steps: float
    incumbent_start_ups: int
    """1 where the incumbent's run has to be started as well."""
    incumbent_moves: Moves
    incumbent_ratio: float
    hot: frozenset[str]
    """Knobs that need no start-up now."""
    plan: BlockPlan = TRIAL_PLAN
    """Of a trial whose gain would not be clear; one that is clear has short blocks."""
    clear_gain_frac: float = 1.0
    """Gain over the incumbent that two pairs settle."""
    noise: NoiseFloor | None = None
    """What a gain beyond any drift is told by; None: there is no such gain."""
    objective: Objective = Objective.STEP_TIME
    slow_starts: Mapping[tuple[str, KnobValue], float] = field(default_factory=dict[tuple[str, KnobValue], float])
    """Steps that a launch takes longer for a knob's value, as the profile has measured (compiling)."""

    def __call__(self, change: Change, forecast_ratio: float, slow_end: float = math.inf) -> float:
        """Return the steps that trying ``change``, forecast at that ratio and no slower than ``slow_end``, takes.

        Example: 20 steps of start-up, a waiting incumbent at 1.0, a forecast of 0.4, two pairs of three steps:
        20 + 2 x 0.4 + 2 x 4 x 1.4 = 32.
        """
        if is_far(slow_end, self.incumbent_ratio, self.noise, self.objective):
            num_steps = max(FEW_STEPS_PLAN.kept_steps, steps_watched(change.effect, FEW_STEPS_PLAN))
            return self.of_few_steps(change, forecast_ratio, num_steps)
        start_ups = self._start_steps(change) + self.incumbent_start_ups * self._starting(self.incumbent_moves)
        is_clear = 1 - forecast_ratio / self.incumbent_ratio > self.clear_gain_frac
        num_pairs, kept = (
            (MIN_PAIRS, TRIAL_PLAN.kept_steps) if is_clear else (self.plan.max_pairs, self.plan.kept_steps)
        )
        num_steps = num_pairs * (kept + 1)
        warm_up = WARMUP_STEPS * (self.incumbent_start_ups * self.incumbent_ratio + forecast_ratio)
        both_arms = num_steps * (self.incumbent_ratio + forecast_ratio)
        return start_ups + warm_up + both_arms

    def of_few_steps(self, change: Change, forecast_ratio: float, num_steps: int) -> float:
        """Return the steps that ``num_steps`` whole steps of the candidate alone take.

        Example: 20 steps of start-up, a forecast of 0.5, 4 steps: 20 + (2 + 4) x 0.5 = 23.
        """
        return self._start_steps(change) + (WARMUP_STEPS + num_steps) * forecast_ratio

    def _start_steps(self, change: Change) -> float:
        """Return the steps that the change's own start-up takes; none where hot knobs suffice."""
        turned = {knob for knob, _ in moves_of(change) ^ self.incumbent_moves}
        return 0.0 if turned <= self.hot else self._starting(moves_of(change))

    def _starting(self, moves: Moves) -> float:
        return self.start_up_steps + sum(self.slow_starts.get(move, 0.0) for move in moves)


def trial_cost(context: Context, found: SearchState) -> TrialCost:
    """Return the prices as things stand: measured start-ups, runs that wait, the incumbent's own step."""
    baseline = context.baseline_settings
    settings = found.incumbent.trial.change.applied_to(baseline) if found.incumbent else baseline
    noise = context.baseline.noise
    return TrialCost(
        start_up_steps=context.runs.start_up_steps(context.baseline.step_time.value),
        incumbent_start_ups=int(not context.runs.serves(trial_spec(context, settings))),
        incumbent_moves=moves_of(found.incumbent.trial.change) if found.incumbent else frozenset(),
        incumbent_ratio=found.incumbent_ratio,
        hot=context.runs.hot if context.runs.can_turn else frozenset(),
        slow_starts=slow_starts(context.baseline),
        noise=noise,
        objective=context.job.objective,
        plan=TRIAL_PLAN if noise is None else plan_for(TRIAL_PLAN, noise),
        clear_gain_frac=1.0 if noise is None else clear_gain(noise),
    )


def slow_starts(baseline: Profile) -> dict[tuple[str, KnobValue], float]:
    """Return the steps of the baseline that a launch takes longer for a knob's value; none where nothing was measured.

    Example: compiling takes 20 s, a step 1.3 s: ``{("compile", True): 15.4}``.
    """
    curves = [curve for curve in baseline.costs if curve.name == START_UP]
    return {move: curve.points[0].seconds / baseline.step_time.value for curve in curves for move in curve.when.items()}
