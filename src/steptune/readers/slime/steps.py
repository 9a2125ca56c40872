"""slime's console dicts become one step per rollout.

`perf N` (twice: the rollout manager's and the trainer's) and `rollout N` count rollouts, but `step N` counts optimizer
steps: with two per rollout, `step 544` belongs to rollout 272. So it is booked on the rollout of the `rollout N` line
before it (slime 624b824, backends/megatron_utils/model.py, `accumulated_step_id`); of several optimizer steps the first
counts, the only one whose mismatch compares equal weights. Where the rollouts' own lines are not there, every
optimizer step stands for itself.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from steptune.readers.formats.by_step import StepCollector, add
from steptune.readers.formats.dict_repr import DictText, read_pairs
from steptune.readers.formats.rows import steps_of
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_HEAD = re.compile(r"(?:^|[\s-])(?P<what>perf|rollout|step|eval) (?P<number>\d{1,9}): (?=\{)")
_MARK = re.compile(
    r"(?:^|[\s-])(?:perf|rollout) \d+: \{'(?:perf|rollout|train)/|'perf/(?:rollout_time|train_wait_time|step_time)'"
)
_LOOSE = re.compile(r"^\s*'?(?:perf|rollout)/[\w./-]+'\s*:")
"""One pair of a dict on a line of its own, as people copy it."""

_ASSIGNED_HEAD = re.compile(r"(?:^|[\s#])step (?P<number>\d{1,9}): (?=train/[\w./-]+=)")
_ASSIGNED = re.compile(r"(?P<key>train/[\w./-]+)=(?P<value>[-+\w.]+)")
"""`step 0: train/loss=1.2, train/grad_norm=1.02`: how people copy a step into their notes."""

_COMPONENT = re.compile(r"^\s*- (?P<name>\w+) mean (?P<mean>\d+(?:\.\d+)?) s, p50 [\d.]+ s, p95 ")
"""`- sandbox_acquire mean 129.35 s, p50 64.58 s, ...`: what slime-derived stacks print of a sample's life."""

_TIMER = re.compile(r"\bTimer (?P<name>\w+) end \(elapsed: (?P<seconds>\d+(?:\.\d+)?)s\)")
"""What every rank says when a phase ends; the dict of the step says it again as `perf/<name>_time`."""

COMPONENT_PREFIX = "component_time/"


def is_mark(text: str) -> bool:
    """Whether only slime prints such a line."""
    return _MARK.search(text) is not None or _LOOSE.match(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield one step per rollout, including those without training timers."""
    reader = _Reader(
        collector=StepCollector(path=path), components=StepBuilder(path=path), timers=StepBuilder(path=path)
    )
    return steps_of(reader, raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    collector: StepCollector
    components: StepBuilder
    """Means over samples of no stated step."""
    timers: StepBuilder
    """The latest time of every phase, for a paste without the trainer's dict."""
    is_timed: bool = False
    """Whether that dict was seen."""
    open_record: DictText | None = None
    head: tuple[str, int] = ("perf", 0)
    """Kind and number of the open record."""
    rollout: int = 0
    """The rollout that is trained on."""
    is_stated: bool = False
    """Whether a line said which rollout that is."""
    update: int | None = None
    """The optimizer step that was read last, where no line says of which rollout it is."""

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the steps it closes."""
        head = _HEAD.search(line.text)
        if head is not None:
            yield from self._close()
            self.head = (head["what"], int(head["number"]))
            self.open_record = DictText.of(line, head.end())
        elif self.open_record is not None:
            self.open_record.add(line)
        elif assigned := _ASSIGNED_HEAD.search(line.text):
            yield from self._put("step", int(assigned["number"]), list(_assigned(line)))
        elif timer := _TIMER.search(line.text):
            reading = _timer(timer, line)
            self.timers.readings[reading.key] = reading
        elif component := _COMPONENT.match(line.text):
            add(self.components, [_component(component, line)])
        elif _LOOSE.match(line.text):
            yield from self._put("loose", self.rollout, read_pairs(DictText.of(line)))
        if self.open_record is not None and self.open_record.is_closed:
            yield from self._close()

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        yield from self._close()
        yield from self.collector.end()
        if not self.components.is_empty():
            yield self.components.build()
        if not self.is_timed and not self.timers.is_empty():
            yield self.timers.build()

    def _close(self) -> Iterator[StepRecord]:
        record, self.open_record = self.open_record, None
        if record is not None:
            yield from self._put(*self.head, read_pairs(record))

    def _put(self, what: str, number: int, found: Sequence[Reading | Dropped]) -> Iterator[StepRecord]:
        if what == "rollout":
            self.rollout = number
        self.is_stated = self.is_stated or what in ("perf", "rollout")
        if what == "step" and not self.is_stated:
            if self.update not in (None, number):
                yield from self.collector.end()  # which of them share a rollout is not said
            self.update = number
        if what != "eval":
            at = self.rollout if what == "step" else number
            self.is_timed = self.is_timed or any(item.key.startswith("perf/") and "train" in item.key for item in found)
            yield from self.collector.put(at, found, is_stated=self.is_stated)


def _timer(found: re.Match[str], line: Line) -> Reading:
    key = f"perf/{found['name']}_time"
    return Reading(key=key, value=float(found["seconds"]), text=found["seconds"], line=line.number)


def _component(found: re.Match[str], line: Line) -> Reading:
    key = f"{COMPONENT_PREFIX}{found['name']}/mean"
    return Reading(key=key, value=float(found["mean"]), text=found["mean"], line=line.number)


def _assigned(line: Line) -> Iterator[Reading]:
    for found in _ASSIGNED.finditer(line.text):
        value = parse_number(found["value"])
        if value is not None:
            yield Reading(key=found["key"], value=value, text=found["value"], line=line.number)
