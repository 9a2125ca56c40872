"""Records of several actors become one `StepRecord` per step.

Actors print the same step minutes apart and run ahead of each other, so a few steps are open at a time. What must
never happen is a step made of two: a repeated key means another run in the same file (numbers start again) or
another actor with the same names, and neither is mixed in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord

MAX_OPEN_STEPS = 4
"""Steps that may be open at once: a rollout actor runs at most a few steps ahead of the trainer."""


@final
@dataclass(kw_only=True, slots=True)
class StepCollector:
    """Feed it what every actor says of a step; it yields steps when they can no longer grow."""

    path: str
    steps: dict[int, StepBuilder] = field(default_factory=dict[int, StepBuilder])
    newest: int = -1

    def put(self, number: int, found: Sequence[Reading | Dropped], *, is_stated: bool = True) -> Iterator[StepRecord]:
        """Add one actor's record of step ``number``; yield the steps it closes.

        A number that the log does not state is where the record is kept, not what the step is called.
        """
        held = self.steps.get(number)
        is_repeated = held is not None and any(held.holds(item.key) for item in found)
        if number < self.newest - MAX_OPEN_STEPS or (is_repeated and number < self.newest):
            yield from self.end()
            held, is_repeated = None, False
        if is_repeated:
            return
        if held is None:
            held = self.steps.setdefault(number, StepBuilder(path=self.path, number=number if is_stated else None))
        add(held, found)
        self.newest = max(self.newest, number)
        while len(self.steps) > MAX_OPEN_STEPS:
            yield self.steps.pop(min(self.steps)).build()

    def end(self) -> Iterator[StepRecord]:
        """Yield the steps still open, in order."""
        for number in sorted(self.steps):
            yield self.steps[number].build()
        self.steps = {}
        self.newest = -1


def add(step: StepBuilder, found: Sequence[Reading | Dropped]) -> None:
    """Put what is new into ``step``; of a repeated key the first counts."""
    for item in found:
        if step.holds(item.key):
            continue
        if isinstance(item, Reading):
            step.readings[item.key] = item
        else:
            step.dropped.append(item)
