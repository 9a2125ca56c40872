"""SkyRL's console becomes steps.

The same step is told twice: by loguru as each phase ends, and by the console tracker as one pprinted dict, after
`step` has finished. The surprise is a paste of fragments: a `generate` that finished after the last `step` belongs to
the next one, and a dict whose step time differs from the finished one is another step. None of them are mixed::

    Finished: 'step', time cost: 288.78s       <- step A, its phases not in the paste
    Finished: 'generate', time cost: 45.11s    <- step B, unfinished
    'timing/step': '286.05', 'timing/generate': '27.65', ...    <- step C, complete in itself
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.readers.formats.by_step import add
from steptune.readers.formats.dict_repr import DictText, read_pairs
from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.rows import steps_of
from steptune.readers.formats.run_bar import RunBar
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.skyrl.keys import PREFIX, STEP_KEY
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.values import parse_number

_FINISHED = re.compile(r"Finished:? '(?P<name>\w+)'(?:, time cost: |\s{1,8})(?P<value>\d[\d.]*)s\b")
_FAILURE = re.compile(
    r"^\s*(?:\S{1,40} )?(?:Traceback \(most recent|(?:torch\.)?(?:cuda\.)?OutOfMemoryError|Error executing job)"
)
_FAILURE_REACH = 3
"""Lines between a failure and the timers that it passed, on either side: a timer speaks also when an error ends it."""

_FAILED = "ended with an error: no whole phase"
_STEP_HEAD = re.compile(r"\bStep (?P<number>\d{1,9}):\s*(?:\{|$)")
_PAIRS = re.compile(
    r"'(?:timing|policy|reward|generate|trainer|async|loss|critic|environment|vllm)/|'batch_(?:num|padded)"
)
_PLAIN = re.compile(
    r"(?P<key>\breward/\w+|\bbatch_(?:num|padded)_\w+|\bavg_(?:final_rewards|response_length)): "
    r"(?P<value>[-+\d.e]+|nan)"
)
_SPOKEN_KEYS = {"avg_final_rewards": "reward/avg_final_rewards", "avg_response_length": "generate/avg_num_tokens"}
"""What loguru calls metrics otherwise than the tracker."""

_MEAN_STEP = re.compile(r"`?timing/step`?\**\s*=\s*\**(?P<value>\d[\w :.]*\d?[hms])")
_MARK = re.compile(
    r"skyrl[._]|SKYRL_|'timing/(?:step|generate|policy_train|fwd_logprobs_values_reward)'|^\W*timing/step\W*="
)
PHASES = (
    "generate",
    "policy_train",
    "critic_train",
    "train_critic_and_policy",
    "fwd_logprobs_values_reward",
    "compute_advantages_and_returns",
    "convert_to_training_input",
    "postprocess_generator_output",
    "sync_weights",
    "save_checkpoints",
    "save_hf_model",
    "eval",
    "wait_for_generation_buffer",
    "run_training",
)
"""Timers by name: what a Markdown table may list."""

_BAR_LABELS = ("Training Step Progress", "Training Batches Processed")
"""What the bar over the steps is called, today and until 2025."""

_ROUNDING_S = 0.011
"""loguru prints two decimals, the tracker four: equal step times differ by no more."""


def is_mark(text: str) -> bool:
    """Whether only SkyRL prints such a line."""
    return _MARK.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order, including unfinished ones."""
    return steps_of(_Reader(path=path), raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    path: str
    spoken: StepBuilder = field(init=False)
    """What loguru said of the step in progress."""
    finished: StepBuilder | None = None
    """The last step that loguru finished, until its dict comes or does not."""
    told: StepBuilder | None = None
    """The dict or table in progress."""
    number: int | None = None
    bar: RunBar = field(init=False)
    has_timers: bool = False
    """Whether any phase or step was timed."""
    failed_at: int | None = None
    """Line of the last failure, moved on by the timers that it passes."""

    def __post_init__(self) -> None:
        self.spoken = StepBuilder(path=self.path)
        self.bar = RunBar(path=self.path, labels=_BAR_LABELS)

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the steps it closes."""
        self.bar.take(line)
        if _FAILURE.search(line.text):
            self._fail(line.number)
        if head := _STEP_HEAD.search(line.text):
            yield from self._close_told()
            self.told = StepBuilder(path=self.path, number=int(head["number"]))
        for found in _FINISHED.finditer(line.text):
            yield from self._hear(found["name"], found["value"], line)
        if _PAIRS.search(line.text):
            yield from self._tell(list(read_pairs(DictText.of(line))))
        elif mean := _MEAN_STEP.search(line.text):
            yield from self._tell(_seconds("step", mean["value"], line))
        elif self.told is not None and (row := _table_row(line)):
            yield from self._tell(row)
        elif found := list(_PLAIN.finditer(line.text)):
            add(self.told or self.spoken, [r for f in found if (r := _plain(f, line)) is not None])

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        yield from self._close_told()
        if self.finished is not None:
            yield self._built(self.finished)
        if not self.spoken.is_empty():
            yield self.spoken.build(is_cut=True)
        if not self.has_timers:
            yield from self.bar.end()

    def _hear(self, name: str, text: str, line: Line) -> Iterator[StepRecord]:
        yield from self._close_told()
        value = parse_number(text)
        if value is None:
            return
        self.has_timers = True
        key = PREFIX + name
        if self.failed_at is not None and line.number - self.failed_at <= _FAILURE_REACH:
            self.failed_at = line.number
            add(self.spoken, [Dropped(key=key, text=text, line=line.number, why=_FAILED)])
            return
        add(self.spoken, [Reading(key=key, value=value, text=text, line=line.number)])
        if key == STEP_KEY:
            if self.finished is not None:
                yield self._built(self.finished)
            self.finished, self.spoken = self.spoken, StepBuilder(path=self.path)

    def _fail(self, line: int) -> None:
        """Drop the timers that spoke right before the failure, where it had passed the whole step already."""
        self.failed_at = line
        step, at, reach = self.finished, line, _FAILURE_REACH
        if step is None or not self.spoken.is_empty():
            return
        for reading in reversed(list(step.readings.values())):
            if not 0 < at - reading.line <= reach or not reading.key.startswith(PREFIX):
                return
            at, reach = reading.line, 1
            del step.readings[reading.key]
            step.dropped.append(Dropped(key=reading.key, text=reading.text, line=reading.line, why=_FAILED))

    def _tell(self, found: Sequence[Reading | Dropped]) -> Iterator[StepRecord]:
        if self.told is not None and any(self.told.holds(item.key) and item.key == STEP_KEY for item in found):
            yield from self._close_told()
        if self.told is None:
            self.told = StepBuilder(path=self.path)
        self.has_timers = self.has_timers or any(item.key.startswith(PREFIX) for item in found)
        add(self.told, found)

    def _close_told(self) -> Iterator[StepRecord]:
        told, self.told = self.told, None
        if told is None or told.is_empty():
            return
        stated = told.readings.get("trainer/global_step")
        if told.number is None and stated is not None and stated.value.is_integer():
            told.number = int(stated.value)
        if self.finished is not None:
            if not _is_same(self.finished, told):
                yield self._built(self.finished)
            self.finished = None
        yield told.build()

    def _built(self, step: StepBuilder) -> StepRecord:
        """A finished step of which no phase was seen is one whose beginning the paste lacks."""
        return step.build(is_cut=set(step.readings) <= {STEP_KEY})


def _is_same(spoken: StepBuilder, told: StepBuilder) -> bool:
    mine, other = spoken.readings.get(STEP_KEY), told.readings.get(STEP_KEY)
    return mine is not None and other is not None and abs(mine.value - other.value) <= _ROUNDING_S


def _table_row(line: Line) -> list[Reading | Dropped]:
    """Read ``| `save_checkpoints` (n=3) | 2m31s | 0.5% |``; what follows the name is a remark."""
    cells = table_cells(line.text)
    name = cells[0].split(" ")[0].strip("`") if len(cells) > 1 else ""
    return _seconds(name, cells[1], line) if name in PHASES else []


def _seconds(name: str, text: str, line: Line) -> list[Reading | Dropped]:
    value = parse_duration_s(text)
    value = parse_number(text) if value is None else value
    return [] if value is None else [Reading(key=PREFIX + name, value=value, text=text, line=line.number)]


def _plain(found: re.Match[str], line: Line) -> Reading | None:
    value = parse_number(found["value"].rstrip("."))
    key = _SPOKEN_KEYS.get(found["key"], found["key"])
    return None if value is None else Reading(key=key, value=value, text=found["value"], line=line.number)
