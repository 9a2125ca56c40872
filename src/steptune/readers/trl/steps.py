"""TRL's console becomes steps.

A dict has no step number; the bar before it has, or, in a paste, the redrawn one after it. Between two generations
TRL may print no metrics at all, so a bar alone is a step too::

    time (ms) | fwd: 114577.10 | bwd: ...        DeepSpeed: the step in progress
      0%|   | 3/1562 [18:48<164:33:29, 379.99s/it]    its number and rate
    {'loss': -0.0684, ...}                       its metrics
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from steptune.readers.formats.by_step import add
from steptune.readers.formats.dict_repr import DictText, read_pairs
from steptune.readers.formats.progress_bar import Bar, find_bars
from steptune.readers.formats.rows import steps_of
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.step import Dropped, Reading, StepBuilder, StepRecord
from steptune.readers.trl.elapsed import ELAPSED_KEY, ElapsedSpans, since_start
from steptune.readers.trl.keys import BAR_KEY, FORWARD_KEY
from steptune.readers.trl.megatron import read_iteration
from steptune.readers.trl.notebook import is_rule, read_header, read_progress, read_row
from steptune.readers.trl.swift import mean_step, stated_number

_DICT = re.compile(
    r"^\s{0,8}['\"]loss['\"]: "
    r"|\{['\"](?:loss|reward|num_tokens|completion_length|completions/|rewards/|train_runtime"
    r"|eps['\"]: |objective/)"
)
_PAIR_PART = re.compile(r"['\"]\s*:|^\s*[\w.+-]*['\"]?\s*[,}]|^\s*[\d.eE+-]+\s*$")
"""What a row holds that goes on with a record whose opening brace was not copied."""

_MARK = re.compile(
    r"Step\s*[\t|]\s*Training Loss\s*[\t|].*reward"
    r"|\{(?P<q>['\"])loss(?P=q): ['\"]?(?:[-+\d.e]+|nan|inf)['\"]?, (?P=q)(?:grad_nor|reward)"
    r"|(?P<w>['\"])(?:completions/(?:mean_length|clipped_ratio)|reward_std|objective/(?:rlhf_reward|scores))(?P=w): "
    r"|\| consumed samples: .*\| reward_std: "
)
_DEEPSPEED = re.compile(r"time \(ms\)(?= \| fwd: )")
_DEEPSPEED_TIMER = re.compile(r"\| (?P<key>fwd|bwd|bwd_inner|bwd_allreduce|step): (?P<ms>\d+\.\d+)(?=\s|$)")
_EVALUATION_KEYS = ("eval_loss", "eval_runtime", "eval_reward")
"""Dicts with one of these are of an evaluation."""

_RUN_KEY = "train_runtime"
_OF_RUN = ("train_", "epoch", "total_flos")
"""Beginnings of keys that the dict of the whole run has of its own. What it holds besides are means of the steps since
the last dict: of all steps where a run is shorter than `logging_steps` (trl f2cd577, GRPOTrainer.log)."""

_LABELS = ("", "Train")
"""How the bar of the run is called, by Hugging Face's trainer and by ms-swift's."""

_UNSURE_BAR = "is of one of two bars without a name, of which the first ended before any metric came"
"""A bar over a data set, or an evaluation before the first step."""

_MS_PER_S = 1000.0


def is_mark(text: str) -> bool:
    """Whether only a Hugging Face trainer prints such a line."""
    return _MARK.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order, those of which only the bar is known included."""
    return steps_of(_Reader(path=path), raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    path: str
    step: StepBuilder = field(init=False)
    has_metrics: bool = False
    """Whether the open step has its dict."""
    open_dict: DictText | None = None
    columns: list[str] = field(default_factory=list[str])
    """Of the notebook's table, once its header was seen."""
    last_row: int = 0
    """Number of the line that was last of that table."""
    total: int | None = None
    """Steps of the run, by which its bar is told from others."""
    spans: ElapsedSpans = field(default_factory=ElapsedSpans)
    had_metrics: bool = False
    """Whether any step had its dict."""

    def __post_init__(self) -> None:
        self.step = StepBuilder(path=self.path)

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the step it closes."""
        if iteration := read_iteration(line):
            bar, found = iteration
            yield from self._close_dict()
            yield from self._turn()
            yield from self._advance(bar, line)
            add(self.step, found)
            self.has_metrics = self.had_metrics = True
            return
        yield from self._notebook(line)
        start = _DICT.search(line.text)
        for bar in find_bars(line.text):
            yield from self._close_dict()
            if start is not None and bar.start < start.start() and self.has_metrics:
                yield from self._turn()  # this bar leads in the dict that follows on its line
            yield from self._advance(bar, line)
        if _DEEPSPEED.search(line.text):
            yield from self._close_dict()
            yield from self._time(line)
        if start is not None:
            yield from self._close_dict()
            self.open_dict = DictText.of(line, start.start())
        elif self.open_dict is not None and "{" not in self.open_dict.text and not _PAIR_PART.search(line.text):
            yield from self._close_dict()
        elif self.open_dict is not None:
            self.open_dict.add(line)
        if self.open_dict is not None and self.open_dict.is_closed:
            yield from self._close_dict()

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        yield from self._close_dict()
        yield from self._turn()

    def _notebook(self, line: Line) -> Iterator[StepRecord]:
        header = read_header(line.text)
        self.columns = header or self.columns
        is_next = line.number == self.last_row + 1
        row = read_row(self.columns, line, may_be_short=is_next) if self.columns and not header else None
        if header or row is not None or (is_next and is_rule(line.text)):
            self.last_row = line.number
        progress = read_progress(line) if row is None else None
        if row is not None or progress is not None:
            yield from self._close_dict()
            yield from self._turn()
        if row is not None:
            self.step.number = row[0]
            add(self.step, row[1])
        elif progress is not None:
            self.step.number = progress[0]
            add(self.step, [progress[1]])

    def _advance(self, bar: Bar, line: Line) -> Iterator[StepRecord]:
        is_redrawn = self.step.number is None and not self.step.is_empty()
        if bar.label not in _LABELS or bar.done == 0:
            return
        if not is_redrawn and self.total not in (None, bar.total):
            if self.spans.is_finished and not self.had_metrics:
                add(self.step, [Dropped(key=ELAPSED_KEY, text=bar.text, line=line.number, why=_UNSURE_BAR)])
            return
        if not is_redrawn and self.step.number != bar.done:
            yield from self._turn()
        self.total, self.step.number = bar.total, bar.done
        rate = Reading(key=BAR_KEY, value=bar.item_s, text=bar.text, line=line.number)
        add(self.step, [rate, *since_start(bar, line=line.number), *self.spans.take(bar, line=line.number)])

    def _time(self, line: Line) -> Iterator[StepRecord]:
        if self.has_metrics or self.step.holds(BAR_KEY) or self.step.holds(FORWARD_KEY):
            yield from self._turn()
        for timer in _DEEPSPEED_TIMER.finditer(line.text):
            value = float(timer["ms"]) / _MS_PER_S
            add(self.step, [Reading(key=timer["key"], value=value, text=f"{timer['ms']} ms", line=line.number)])

    def _close_dict(self) -> Iterator[StepRecord]:
        record, self.open_dict = self.open_dict, None
        found: list[Reading | Dropped] = [] if record is None else list(read_pairs(record))
        if any(item.key == _RUN_KEY for item in found):
            found = [item for item in found if not item.key.startswith(_OF_RUN)]
        if not found or any(item.key in _EVALUATION_KEYS for item in found):
            return
        if self.has_metrics:
            yield from self._turn()
        number = None if record is None else stated_number(record.text)
        self.step.number = number if number is not None else self.step.number
        add(self.step, [*found, *mean_step(found)])
        self.has_metrics = self.had_metrics = True

    def _turn(self) -> Iterator[StepRecord]:
        if not self.step.is_empty():
            yield self.step.build()
        self.step, self.has_metrics = StepBuilder(path=self.path), False
