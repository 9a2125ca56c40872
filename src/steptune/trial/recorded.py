"""An incumbent that is not run again: its steps as they were recorded, for a trial of a few steps of the candidate.

Arms are compared on the same reference steps, so the recorded steps are found by number. The surprise: a candidate that
samples ahead of its trainer settles first, and only then it is known which steps are asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.trial import Observation
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan


class NotRecordedError(LookupError):
    """A step is asked for that the incumbent has not run: both arms have to be launched."""


@final
@dataclass(kw_only=True, slots=True)
class Recorded:
    """Answers with recorded steps: ``Recorded(by_number={2: ..., 3: ...})``; see `recorded`."""

    by_number: Mapping[int, Observation]
    step: int = WARMUP_STEPS
    """Number of the next one."""

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Return the next steps; see `trial.blocks.RunsSteps`.

        Raises:
            NotRecordedError: one of them was not recorded.
        """
        wanted = range(self.step, self.step + num_steps)
        if not all(number in self.by_number for number in wanted):
            raise NotRecordedError(f"steps {wanted.start} to {wanted.stop - 1} of the incumbent were not all recorded")
        self.step = wanted.stop
        return [self.by_number[number] for number in wanted]

    def skip_to(self, step: int) -> None:
        """Go on from ``step``: the candidate had to run until there before its steps count."""
        self.step = step


def recorded(steps: Sequence[Observation], plan: BlockPlan) -> Recorded | None:
    """Return ``steps`` as an incumbent, the first run of each number; None where its first block is not whole."""
    by_number = {step.step: step for step in reversed(steps)}
    wanted = range(WARMUP_STEPS, WARMUP_STEPS + plan.kept_steps)
    return Recorded(by_number=by_number) if all(number in by_number for number in wanted) else None
