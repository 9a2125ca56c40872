"""The bar over the steps of a run, where a log times nothing else: `Training Progress:  3%| | 12/435 [30:03<...]`.

The surprise: its clock counts from where this process began and its steps from where the run did, so that after a
resume their quotient is too small. It is believed only where the rate beside it agrees.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.readers.average import MIN_STEPS_KEPT, WARMUP_STEPS
from steptune.readers.facts import JobFacts
from steptune.readers.formats.mean_step import MeanStep, read_mean_step
from steptune.readers.formats.progress_bar import Bar, find_bars
from steptune.readers.lines import Line
from steptune.readers.reading import LogReading
from steptune.readers.step import Reading, StepRecord

RUN_BAR_KEY = "bar: elapsed / steps"
"""Mean seconds per step since the bar began."""

MAX_RATE_RATIO = 2.0
"""Largest quotient of a bar's rate and its mean since the beginning at which the mean is believed. Prior."""

_MIN_STEPS = WARMUP_STEPS + MIN_STEPS_KEPT
_MIN_S = 20.0
"""Seconds from which on a clock of whole seconds is wrong by 5 % at most."""

_NOTE = "step time is the mean since the progress bar began, loading, validation and saves included"


@final
@dataclass(kw_only=True, slots=True)
class RunBar:
    """Tell it of every line; it remembers the last state of the bar called one of ``labels``."""

    path: str
    labels: tuple[str, ...]
    _last: tuple[Bar, int] | None = None
    _totals: set[int] = field(default_factory=set[int])
    """Of more than one length are several runs, whose steps are not the same."""

    def take(self, line: Line) -> None:
        """Take note of the bars of a line."""
        if "%|" not in line.text:
            return
        for bar in find_bars(line.text):
            if bar.label.endswith(self.labels) and bar.done > 0:
                self._last = (bar, line.number)
                self._totals.add(bar.total)

    def end(self) -> Iterator[StepRecord]:
        """Yield the mean step, where enough steps were done and the rate agrees with it."""
        if self._last is None or len(self._totals) > 1:
            return
        bar, line = self._last
        mean_s = bar.elapsed_s / bar.done
        if bar.done < _MIN_STEPS or bar.elapsed_s < _MIN_S:
            return
        if max(mean_s, bar.item_s) > MAX_RATE_RATIO * min(mean_s, bar.item_s):
            return
        text = f"{bar.elapsed_s:g} s for {bar.done} steps"
        reading = Reading(key=RUN_BAR_KEY, value=mean_s, text=text, line=line)
        yield StepRecord(number=bar.done, path=self.path, readings={RUN_BAR_KEY: reading})


def whole_step_reading(records: Sequence[StepRecord], facts: JobFacts, framework: str) -> LogReading | None:
    """Return a profile without roles, of the bar alone; None where there is no bar."""
    told = [record for record in records if RUN_BAR_KEY in record.readings]
    meaning = MeanStep(
        framework=framework, step_key=RUN_BAR_KEY, step_note=_NOTE, timers=(), clock=(), schedule="sync", series={}
    )
    last = told[-1:]
    return as_mean_of(read_mean_step(last, facts, meaning), last[0].number) if last else None


def as_mean_of(reading: LogReading | None, num_steps: int | None) -> LogReading | None:
    """Return the reading of one record as what the record is: the mean of so many steps."""
    if reading is None or reading.profile is None or num_steps is None:
        return reading
    step_time = reading.profile.step_time.model_copy(update={"n": num_steps})
    profile = reading.profile.model_copy(update={"step_time": step_time, "num_steps": num_steps})
    return reading.model_copy(update={"profile": profile})
