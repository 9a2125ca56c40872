"""Phases as verl before 0.2 and its forks speak of them, each when it ends: `reward: 511.8 seconds`.

The surprise: the step's line says the same again, so they count only where no line of metrics times anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from steptune.readers.lines import Line
from steptune.readers.step import Reading, StepBuilder, StepRecord

_SPOKEN = re.compile(
    r"^\s*(?P<name>gen|verify|reward|reward_model|old_log_prob|ref|values|adv|update_critic|update_actor|testing)"
    r": (?P<value>\d{1,7}\.\d{1,4}) seconds\]?\s*$"
)


@final
@dataclass(kw_only=True, slots=True)
class SpokenTimers:
    """Tell it of every line, then ask for the steps: one ends where a phase comes again."""

    path: str
    _steps: list[StepBuilder] = field(default_factory=list[StepBuilder])

    def take(self, line: Line) -> None:
        """Take note of a line that speaks of a phase."""
        found = _SPOKEN.match(line.text)
        if found is None:
            return
        key = f"timing/{found['name']}"
        if not self._steps or self._steps[-1].holds(key):
            self._steps.append(StepBuilder(path=self.path))
        value = float(found["value"])
        self._steps[-1].readings[key] = Reading(key=key, value=value, text=found["value"], line=line.number)

    def end(self) -> Iterator[StepRecord]:
        """Yield the steps that were spoken of."""
        return (step.build() for step in self._steps)
