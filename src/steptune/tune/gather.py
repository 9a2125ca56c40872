"""How a trial gathers its evidence: one launch of both arms, and a second one where the first leaves it open.

Apart from the session, so that `bench/verdicts.py` can put ten thousand simulated machines under the very same loop.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from steptune.core.decision import Outcome
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.stats.looks import TRIAL_LOOKS
from steptune.stats.noise import step_pair_sd, worth_frac
from steptune.trial.blocks import BlockPlan, Pair
from steptune.trial.clear_lead import clear_gain_frac
from steptune.trial.run import pairs_of

TRIAL_PLAN = BlockPlan(max_pairs=TRIAL_LOOKS.first, kept_steps=3)
"""Pairs of blocks of one launch; where they leave it open, as many again: on fresh launches of both arms, or on
the same ones where the framework keeps runs (the confirmation launches afresh)."""

CALM_PAIR_SD = 0.0275
"""Spread of a pair of blocks' ratio at which a gain of 5 % is found within 20 pairs in 80 % of sessions
(bench/verdicts.py; 79.9 % at 0.03)."""

MAX_BLOCK_STEPS = 8
"""Longest block: noise that eight steps do not average away is no noise of steps."""


def plan_for(plan: BlockPlan, noise: NoiseFloor) -> BlockPlan:
    """Return ``plan`` with blocks long enough for the noise that the A/A repeat showed from step to step.

    Example: a pair of steps spreads 7 %, a pair of blocks of N steps 7 % / sqrt(N): 7 steps bring that below 2.75 %.
    """
    sd = step_pair_sd(noise)
    if sd is None:
        return plan
    steps = math.ceil(min(MAX_BLOCK_STEPS, (sd / CALM_PAIR_SD) ** 2))
    return replace(plan, kept_steps=max(plan.kept_steps, steps))


def trial_plan(noise: NoiseFloor, gain: float | None) -> BlockPlan:
    """Return the blocks of a trial that is forecast to gain that part of the incumbent's step; None is unknown.

    Long blocks are for gains near the noise. One that two pairs of short blocks would show gets short ones.
    """
    return TRIAL_PLAN if gain is not None and gain > clear_gain(noise) else plan_for(TRIAL_PLAN, noise)


def alternate_plan(plan: BlockPlan) -> BlockPlan:
    """Return the plan for blocks that are launches of their own: each as long as guards need to judge a launch."""
    return replace(plan, kept_steps=max(plan.kept_steps, MIN_STEPS))


def clear_gain(noise: NoiseFloor) -> float:
    """Return the gain over the incumbent that two pairs of short blocks settle; 1, which none is, of a broken floor."""
    band = worth_frac(noise)
    return 1.0 if band is None else clear_gain_frac(noise, band, TRIAL_PLAN.kept_steps)


Judged = tuple[tuple[Verdict, ...], Outcome, tuple[str, ...]]
"""Guards' verdicts, outcome and reasons."""


def gather(
    run: Callable[[tuple[Pair, ...]], Trial],
    judge: Callable[[Trial], Judged],
    say: Callable[[str], None],
    plan: BlockPlan,
    line: float = 1.0,
) -> tuple[Trial, Judged]:
    """Run one launch, and a second one that adds to its pairs where the first leaves a likely gain open.

    Args:
        run: launches both arms; is given the pairs so far and returns the trial with all of them.
        judge: guards and judges a trial.
        say: is told that it goes on.
        plan: of one launch.
        line: ratio from which on a gain is not worth having, nor worth more pairs.
    """
    trial = run(())
    judged = judge(trial)
    if judged[1] is not Outcome.EXTEND or trial.ratio is None or trial.ratio.value >= line:
        return trial, judged
    say(f"trial {trial.number}: not settled by {plan.max_pairs} pairs, as many again")
    again = run(pairs_of(trial))
    costs = {
        "cost_wall_s": trial.cost_wall_s + again.cost_wall_s,
        "cost_device_s": trial.cost_device_s + again.cost_device_s,
    }
    trial = again.model_copy(update=costs)
    return trial, judge(trial)
