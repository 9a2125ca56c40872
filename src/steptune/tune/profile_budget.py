"""What a profile may take: its own share is what a trial and all that follows the search leave of the budget.

::

    2 natural steps --> 6 more --> evaluation, probe, shuffled replays --> A/A repeat of 4 pairs
          |               |                                      |         of 3 or 2 where its share asks for it
          '---------------'-------- refused where no trial could follow

The surprise: advice alone is not capped, for it tries nothing and may spend whatever a profile takes.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from steptune.core.errors import LimitError, TrialError, explain
from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation
from steptune.profile.measure import FIRST_STEPS, NATURAL_STEPS
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan
from steptune.tune.context import Context

STEPS_AFTER_SEARCH = 165
"""Baseline steps' worth of wall time for waterfall and confirmation, while nothing but natural steps was measured."""

STEPS_OF_A_TRIAL = 36
"""Steps of the A/A repeat, and of a trial that runs its four pairs: two arms of 2 steps of warm-up and 4 blocks of 3
after one of rehearsal at least."""

MIN_AA_PAIRS = 2
"""Pairs of the shortest repeat: six steps of each launch, and one pair has no spread."""

STOPPING_S = 1.0
"""Seconds around the end of its time in which an order that died was stopped and did not fail."""

COLD_FRAC = 0.5
"""A job's second step may take twice as long as later ones, so that half of it is the least that those may take."""


def after_profile_s(step_s: float) -> float:
    """Return the seconds that a trial and all after it need."""
    return (STEPS_OF_A_TRIAL + STEPS_AFTER_SEARCH) * step_s


def check_first_steps(context: Context, steps: Sequence[Observation]) -> None:
    """Refuse a job after its first steps where even steps half as long would leave no time for a trial.

    Raises:
        LimitError: says how much the job needs.
    """
    seen_s = min(step.step_time_s for step in steps)
    step = Estimate(value=seen_s, low=seen_s * COLD_FRAC, high=seen_s, unit="s", source=Source.MEASURED, n=len(steps))
    check_budget(context, step, NATURAL_STEPS - FIRST_STEPS + STEPS_OF_A_TRIAL)


def check_budget(context: Context, step: Estimate, num_due: int = STEPS_OF_A_TRIAL) -> None:
    """Refuse a budget that ends before the first trial can begin, while most of it is still there.

    A step's lower bound is taken, and probing is not counted.
    ``num_due`` steps of the profile are still to come.

    Raises:
        LimitError: says how much the job needs.
    """
    if context.budget.wall_left_s() < _least_s(step, num_due):
        raise _refusal(context, step, num_due)


def _least_s(step: Estimate, num_due: int) -> float:
    """Return the least seconds that ``num_due`` steps, a trial and all after it can take."""
    step_s = step.value if step.low is None else max(step.low, 0.0)
    return num_due * step_s + after_profile_s(step_s)


def _refusal(context: Context, step: Estimate, num_due: int) -> LimitError:
    spec, left_s, least_s = context.job.budget, context.budget.wall_left_s(), _least_s(step, num_due)
    cores = context.job.devices.num_cores
    wanted_s = context.budget.spent_wall_s() + (num_due + STEPS_OF_A_TRIAL + 2 * STEPS_AFTER_SEARCH) * step.value
    return LimitError(
        explain(
            "the budget ends before a first trial could begin",
            got=f"{left_s:.0f} s left of `budget.wall_time_s` {spec.wall_time_s:g} and `budget.device_time_s` "
            f"{spec.device_time_s:g} on {cores} cores, at {step.value:.2f} s a step",
            allowed=f"{least_s:.0f} s for repeat, trial, waterfall and confirmation",
            hint=f"set `budget.wall_time_s` to {wanted_s:.0f} and `budget.device_time_s` to {cores * wanted_s:.0f} or "
            "more, make the job smaller, or ask for forecasts alone with `--advise-only`",
        )
    )


@contextmanager
def within_share(context: Context, step: Estimate, plan: BlockPlan) -> Generator[None]:
    """Stop the orders inside, a probe or replays, where not even the shortest repeat and a trial after it are left.

    Raises:
        LimitError: they took all that, whether or not the framework could stop them.
    """
    num_due = repeat_steps(MIN_AA_PAIRS, plan)
    least_s = _least_s(step, num_due)
    try:
        with context.orders_within(max(0.0, context.budget.wall_left_s() - least_s)):
            yield
    except TrialError as error:
        if context.budget.wall_left_s() < least_s + STOPPING_S:
            raise _refusal(context, step, num_due) from error
        raise
    check_budget(context, step, num_due)


def repeat_pairs(context: Context, step: Estimate, plan: BlockPlan) -> int:
    """Return how many pairs of the A/A repeat the profile's share pays for, as many as ``plan`` has at most.

    Raises:
        LimitError: evaluation, probe and replays have left not even the shortest repeat and a trial after it.
    """
    check_budget(context, step, repeat_steps(MIN_AA_PAIRS, plan))
    share_s = context.budget.wall_left_s() - after_profile_s(step.value)
    fitting = (n for n in range(plan.max_pairs, MIN_AA_PAIRS, -1) if repeat_steps(n, plan) * step.value <= share_s)
    return next(fitting, MIN_AA_PAIRS)


def repeat_steps(num_pairs: int, plan: BlockPlan) -> int:
    """Return the steps of a repeat of ``num_pairs``: both launches, their warm-up and rehearsals of one step.

    >>> repeat_steps(4, BlockPlan(max_pairs=4, kept_steps=3))
    36
    """
    return 2 * (WARMUP_STEPS + num_pairs * (plan.kept_steps + 1))
