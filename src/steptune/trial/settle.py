"""Lets runs that sample ahead of their trainer settle, and says what each pause spoils after that.

The surprise: every pause is a small start again, because the rollout stocks up meanwhile. So the first steps of each
block are left out, as many as the run may be ahead. All arms leave out the same, or they would count other steps of the
reference lengths.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from steptune.core.ages import EXTRA_UPDATES, Ages
from steptune.core.trial import Observation
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan, RunsSteps

MAX_ROUNDS = 8
"""Times that older tokens than any before may make the runs go on: one whose tokens only age is let go, and the guards
say what is wrong with it."""


def settle(
    sessions: Sequence[RunsSteps],
    seen: Sequence[Observation],
    plan: BlockPlan,
    ages: Ages,
    skip_to: Callable[[int], None] = lambda step: None,
) -> BlockPlan:
    """Run all arms on until each may count, and return ``plan`` with the steps that blocks must leave out.

    ``seen`` are the warm-up steps of all arms, `WARMUP_STEPS` of each. An arm that is warm and does not run ahead is
    in neither: ``skip_to`` takes it to the step where the others are then.
    """
    done = WARMUP_STEPS
    for _ in range(MAX_ROUNDS):
        more = ages.steps_owed(seen) - done
        if more <= 0:
            break
        seen = [*seen, *(step for session in sessions for step in session.run_steps(more))]
        done += more
    if done > WARMUP_STEPS:
        skip_to(done)
    has_queue = any(step.queue is not None for step in seen)
    return replace(plan, dropped_steps=ages.steps_owed(seen) - EXTRA_UPDATES if has_queue else 0)
