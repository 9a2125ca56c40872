"""An incumbent that is not run again: its steps as they were recorded, for a trial that only has to bear out a replay.

Arms are compared on the same reference steps, so the recorded steps are found by number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.trial import Observation
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """Answers one block of steps: ``Recorded(steps=(...))``; see `recorded`."""

    steps: tuple[Observation, ...]

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Return the recorded steps; see `trial.blocks.RunsSteps`."""
        assert num_steps == len(self.steps), "a recorded incumbent has the steps of one block"
        return list(self.steps)


def recorded(steps: Sequence[Observation], plan: BlockPlan) -> Recorded | None:
    """Return the first block after a warm-up among ``steps``; None where one of its steps was not recorded."""
    by_number = {step.step: step for step in reversed(steps)}
    wanted = range(WARMUP_STEPS, WARMUP_STEPS + plan.kept_steps)
    if not all(number in by_number for number in wanted):
        return None
    return Recorded(steps=tuple(by_number[number] for number in wanted))
