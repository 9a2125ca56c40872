"""What must be left of the budget when a trial begins, and whether the budget pays for one at all.

Counted in baseline steps, the only clock that a job brings along. The surprise: a budget that is right for one job is
nothing to another of the same size: a step of a hybrid takes twice as long as a dense model's.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.errors import LimitError, explain
from steptune.core.profile import Profile
from steptune.tune.conclude import owes_reward
from steptune.tune.context import Context
from steptune.tune.reward import reward_cost_s

STEPS_AFTER_PRUNING = 85
"""Baseline steps' worth of wall time kept for the confirmation alone: three launches of 8 steps and 2 rehearsals per
arm, and 10 steps per natural arm. One launch of 22 steps per arm took 57; starts cost two to three."""

STEPS_AFTER_SEARCH = 165
"""Baseline steps' worth of wall time kept for waterfall (measured: 80 of 1.4 s) and confirmation."""

STEPS_OF_A_TRIAL = 36
"""Steps of the A/A repeat, and of a trial that runs its four pairs: two arms of 2 steps of warm-up and 4 blocks of 3
after one of rehearsal at least."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """Wall seconds that must be left when a trial begins: ``Reserve(after_s=196, reward_s=190)``."""

    after_s: float
    """For what comes whoever wins."""
    reward_s: float
    """For the reward test, which only some changes owe."""

    def of(self, change: Change | None) -> float:
        """Return what ``change`` needs kept; None is a search without a winner."""
        owes = change is not None and owes_reward(change.effect)
        return self.after_s + (self.reward_s if owes else 0.0)

    @property
    def whole_s(self) -> float:
        """What lets any change be tried."""
        return self.after_s + self.reward_s


def reserve(context: Context, incumbent_ratio: float, num_steps: int) -> Reserve:
    """Return what is kept for ``num_steps`` baseline steps and the reward test of a winner of that ratio."""
    return Reserve(
        after_s=num_steps * context.baseline.step_time.value, reward_s=reward_cost_s(context, incumbent_ratio)
    )


def check_budget(context: Context, first: Profile) -> None:
    """Refuse a budget that ends before the first trial can begin, while most of it is still there.

    ``first`` is of the naturally run steps. Probing is not counted, and a step's lower bound is taken: what is refused
    here could not have gone otherwise.

    Raises:
        LimitError: says how much the job needs.
    """
    spec, step = context.job.budget, first.step_time
    step_s = step.value if step.low is None else max(step.low, 0.0)
    least_s = (2 * STEPS_OF_A_TRIAL + STEPS_AFTER_SEARCH) * step_s
    left_s = context.budget.wall_left_s()
    if left_s >= least_s:
        return
    cores = context.job.devices.num_cores
    wanted_s = context.budget.spent_wall_s() + (2 * STEPS_OF_A_TRIAL + 2 * STEPS_AFTER_SEARCH) * step.value
    raise LimitError(
        explain(
            "the budget ends before a first trial could begin",
            got=f"{left_s:.0f} s left of `budget.wall_time_s` {spec.wall_time_s:g} and `budget.device_time_s` "
            f"{spec.device_time_s:g} on {cores} cores, at {step.value:.2f} s a step",
            allowed=f"{least_s:.0f} s for repeat, trial, waterfall and confirmation",
            hint=f"set `budget.wall_time_s` to {wanted_s:.0f} and `budget.device_time_s` to {cores * wanted_s:.0f} or "
            "more, make the job smaller, or ask for forecasts alone with `--advise-only`",
        )
    )
