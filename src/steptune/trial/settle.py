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
    more = ages.steps_owed(seen) - WARMUP_STEPS
    if more > 0:
        seen = [*seen, *(step for session in sessions for step in session.run_steps(more))]
        skip_to(WARMUP_STEPS + more)
    has_queue = any(step.queue is not None for step in seen)
    return replace(plan, dropped_steps=ages.steps_owed(seen) - EXTRA_UPDATES if has_queue else 0)
