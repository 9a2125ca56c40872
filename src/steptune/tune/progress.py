"""Live progress on stderr: which stage, which trial of how many, forecast against measured, what is left."""

import sys
from dataclasses import dataclass, field
from typing import IO, final

from steptune.core.units import duration_text
from steptune.tune.budget import Budget


@final
@dataclass(kw_only=True, slots=True)
class Progress:
    """Prints one line per fact, each with the time spent and left."""

    budget: Budget
    out: IO[str] = field(default_factory=lambda: sys.stderr)

    def say(self, text: str) -> None:
        """Print ``text`` after the clock."""
        spent, left = self.budget.spent_wall_s(), max(0.0, self.budget.wall_left_s())
        self.out.write(f"[{duration_text(spent):>9}, {duration_text(left)} left] {text}\n")
        self.out.flush()
