"""Step times from what a progress bar says has elapsed, over spans of several steps.

The bar's own rate is smoothed over the last few steps; the clock beside it is not, but has whole seconds. The surprise
is the length of a span: where one generation serves 2, 4, 8 or 16 optimizer steps, single steps are long and short in
turn, and neither is the step time. An evaluation or a save makes one span long, which a median does not see.
"""

from dataclasses import dataclass
from typing import final

from steptune.readers.formats.progress_bar import Bar
from steptune.readers.step import Reading

ELAPSED_KEY = "elapsed / steps"
"""Seconds per step over the span that ends with this step."""

SPAN_STEPS = 16
"""Steps of a span at least: whole cycles of up to 16 optimizer steps per generation."""

SPAN_S = 20.0
"""Seconds of a span at least: a clock of whole seconds is then wrong by 5 % at most."""


@final
@dataclass(kw_only=True, slots=True)
class ElapsedSpans:
    """Takes the states of one run's bar in order: ``ElapsedSpans().take(bar, line=7)``."""

    first: Bar | None = None
    """Where the open span began."""
    is_finished: bool = False
    """Whether the bar reached its end."""

    def take(self, bar: Bar, *, line: int) -> list[Reading]:
        """Return the span's mean step time if ``bar`` ends it; a bar that starts again begins another one."""
        first, self.is_finished = self.first, bar.done == bar.total
        if first is None or bar.done < first.done or bar.elapsed_s < first.elapsed_s or bar.total != first.total:
            self.first = bar
            return []
        num_steps, seconds = bar.done - first.done, bar.elapsed_s - first.elapsed_s
        if num_steps < SPAN_STEPS or seconds < SPAN_S:
            return []
        self.first = bar
        text = f"{seconds:g} s for {num_steps} steps"
        return [Reading(key=ELAPSED_KEY, value=seconds / num_steps, text=text, line=line)]
