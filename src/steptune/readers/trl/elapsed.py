"""Step times from what a progress bar says has elapsed, over spans of several steps.

The bar's own rate is smoothed over the last few steps; the clock beside it is not, but has whole seconds. The surprise
is the length of a span: where one generation serves 2, 4, 8 or 16 optimizer steps, single steps are long and short in
turn, and neither is the step time. An evaluation or a save makes one span long, which a median does not see.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from steptune.readers.formats.progress_bar import Bar
from steptune.readers.step import Reading, StepRecord

ELAPSED_KEY = "elapsed / steps"
"""Seconds per step over the span that ends with this step."""

SINCE_START_KEY = "elapsed / all steps"
"""Mean seconds per step since the bar began, loading and warm-up included."""

CLOCK_KEY = "elapsed_time"
"""Seconds since the run began, as LLaMA-Factory's metrics file states them with every record."""

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


def since_start(bar: Bar, *, line: int) -> list[Reading]:
    """Return the mean step time since the bar began; nothing while its clock is too coarse for it."""
    if bar.elapsed_s < SPAN_S:
        return []
    text = f"{bar.elapsed_s:g} s for {bar.done} steps"
    return [Reading(key=SINCE_START_KEY, value=bar.elapsed_s / bar.done, text=text, line=line)]


def with_clock_spans(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Return ``records`` with the spans that follow from the clock in them."""
    spans, told = ElapsedSpans(), list[StepRecord]()
    for record in records:
        clock = record.readings.get(CLOCK_KEY)
        found: list[Reading] = []
        if clock is not None and record.number is not None and 0 <= clock.value < math.inf:
            bar = Bar(
                label="", done=record.number, total=0, elapsed_s=clock.value, item_s=0.0, text=clock.text, start=0
            )
            found = spans.take(bar, line=clock.line)
        told.append(replace(record, readings={**record.readings, **{r.key: r for r in found}}) if found else record)
    return told
