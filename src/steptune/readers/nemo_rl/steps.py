"""NeMo RL console blocks become steps.

A block starts at the `Step N/M` banner or, in pastes, at `Training Results`; a second `Total step time` also starts
one. Every timer is printed with its share of the step, which is checked: a number whose share disagrees is broken.
The surprise: the single-controller driver prints `valid_tokens_per_sec_per_gpu` in this list with the unit `s`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from steptune.readers.formats.rows import steps_of
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.nemo_rl.timers import STEP_KEY
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_BANNER = re.compile(r"=+ Step (\d{1,12})/\d+ =+")
_RESULTS = re.compile(r"(?:^|\W)Training Results:\s*$")
_TOTAL = re.compile(r"(?:^|•)[\s*-]*Total step time:\s+\d[\d.]*s(?=[\s*]*$)")
_BARE = re.compile(
    r"^\s*(?P<key>Total step time|[a-z_]+(?:/[a-z_]+)?):\s+(?P<value>\d+\.\d+)(?P<unit>s)"
    r"(?:\s+\((?P<percent>[\d.]+)%\))?\s*$"
)
"""A timer whose bullet was lost when it was copied."""

_BULLET = re.compile(
    r"^(?:[^•]*•|\s*[-*])\s+(?P<key>[^:]+):\s+(?P<value>[^\s()%]+?)(?P<unit>s| steps|%| TFLOPS)?"
    r"(?:\s+\((?:(?P<percent>[\d.]+)%|[\d.]+ TFLOPS per rank)\))?\s*$"
)
_HALF_CENT_S = 0.005
"""Rounding of a printed second (two decimals)."""

_HALF_PERCENT_DIGIT = 0.05
"""Rounding of a printed percentage (one decimal)."""

_PERCENT = 100.0


def is_mark(text: str) -> bool:
    """Whether only NeMo RL prints such a line."""
    return _TOTAL.search(text) is not None or _RESULTS.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order."""
    return steps_of(_Reader(path=path), raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    path: str
    step: StepBuilder = field(init=False)
    is_in_timers: bool = False
    """Whether the last line was a timer, so that shorter ones may be missing."""

    def __post_init__(self) -> None:
        self.step = StepBuilder(path=self.path)

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one line; yield the step it ends."""
        banner, bullet = _BANNER.search(line.text), _BULLET.match(line.text) or _BARE.match(line.text)
        if banner:
            yield from self._turn_to(int(banner[1]))
        elif _RESULTS.search(line.text) and self.step.holds(STEP_KEY):
            yield from self._turn_to(None)
        elif bullet:
            if bullet["key"] == STEP_KEY and self.step.holds(STEP_KEY):
                yield from self._turn_to(None)
            self._take(line, bullet)
        self.is_in_timers = bullet is not None and (bullet["key"] == STEP_KEY or bullet["percent"] is not None)

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        if not self.step.is_empty():
            yield self.step.build(is_cut=self.is_in_timers)

    def _turn_to(self, number: int | None) -> Iterator[StepRecord]:
        if not self.step.is_empty():
            yield self.step.build()
        self.step = StepBuilder(path=self.path, number=number)

    def _take(self, line: Line, bullet: re.Match[str]) -> None:
        key, text, value = bullet["key"].strip(), bullet["value"], parse_number(bullet["value"])
        if value is None or self.step.holds(key):
            return
        why = "may have lost digits: the log ends here" if line.may_be_cut and not bullet["unit"] else None
        percent = bullet["percent"]
        if why is None and percent is not None and not self._share_agrees(value, parse_number(percent)):
            why = f"s disagrees with its share of {percent} %"
        if why is None:
            self.step.readings[key] = Reading(key=key, value=value, text=text, line=line.number)
        else:
            self.step.dropped.append(Dropped(key=key, text=text, line=line.number, why=why))

    def _share_agrees(self, seconds: float, percent: float | None) -> bool:
        total = self.step.readings.get(STEP_KEY)
        if total is None or percent is None or total.value <= 0:
            return percent is not None
        expected = _PERCENT * seconds / total.value
        rounding = _HALF_PERCENT_DIGIT + _PERCENT * _HALF_CENT_S / total.value * (1 + seconds / total.value)
        return abs(expected - percent) <= rounding * 1.01
