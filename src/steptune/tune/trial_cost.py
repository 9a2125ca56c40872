"""What a trial will take, in steps of the baseline: the price of finding out.

::

    [start-up][warm-up] [block][block] [block][block] ...      incumbent and candidate in turn, each block after a
     none if the arm's run waits, or hot knobs suffice         rehearsal of its first step, which is paid for too
"""

from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan
from steptune.tune.blame import Moves, moves_of
from steptune.tune.context import Context
from steptune.tune.gather import TRIAL_PLAN, plan_for
from steptune.tune.search_state import SearchState
from steptune.tune.try_change import trial_spec


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

    def __call__(self, change: Change, forecast_ratio: float) -> float:
        """Return the steps that trying ``change``, forecast at that ratio, takes.

        Example: 20 steps of start-up, a waiting incumbent at 1.0, a forecast of 0.4, four pairs of three steps:
        20 + (2 + 4 x 4) x 1.4 = 45.2.
        """
        num_start_ups = self.incumbent_start_ups + self._starts(change)
        num_steps = WARMUP_STEPS + self.plan.max_pairs * (self.plan.kept_steps + 1)
        return num_start_ups * self.start_up_steps + num_steps * (self.incumbent_ratio + forecast_ratio)

    def of_few_steps(self, change: Change, forecast_ratio: float, num_steps: int) -> float:
        """Return the steps that ``num_steps`` whole steps of the candidate alone take.

        Example: 20 steps of start-up, a forecast of 0.5, 4 steps: 20 + (2 + 4) x 0.5 = 23.
        """
        return self._starts(change) * self.start_up_steps + (WARMUP_STEPS + num_steps) * forecast_ratio

    def _starts(self, change: Change) -> bool:
        """Return whether the change needs a start-up of its own."""
        turned = {knob for knob, _ in moves_of(change) ^ self.incumbent_moves}
        return not turned <= self.hot


def trial_cost(context: Context, found: SearchState) -> TrialCost:
    """Return the prices as things stand: measured start-ups, runs that wait, the incumbent's own step."""
    baseline = context.baseline_settings
    settings = found.incumbent.trial.change.applied_to(baseline) if found.incumbent else baseline
    return TrialCost(
        start_up_steps=context.runs.start_up_steps(context.baseline.step_time.value),
        incumbent_start_ups=int(not context.runs.serves(trial_spec(context, settings))),
        incumbent_moves=moves_of(found.incumbent.trial.change) if found.incumbent else frozenset(),
        incumbent_ratio=found.incumbent_ratio,
        hot=context.runs.hot if context.runs.can_turn else frozenset(),
        plan=TRIAL_PLAN if context.baseline.noise is None else plan_for(TRIAL_PLAN, context.baseline.noise),
    )
