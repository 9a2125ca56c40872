"""OpenRLHF's console becomes steps.

One dict per global step. Where there is none (before 14fe44c, 2025-05-19) only the bar over an episode tells the time:
its item is one rollout batch, several optimizer steps long, or, since prompts are counted, one prompt; only the former
states seconds per item that mean anything, so a bar that counts `prompts_consumed` is passed over. The bar over the
batches of a training epoch times no step at all, but behind it stand the batch's reward and loss, to three digits.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from steptune.readers.formats.by_step import StepCollector
from steptune.readers.formats.dict_repr import DictText, read_pairs
from steptune.readers.formats.progress_bar import Bar, find_bars
from steptune.readers.formats.rows import steps_of
from steptune.readers.lines import Line, NumberedLine
from steptune.readers.openrlhf.keys import BAR_KEY, BAR_NAMES
from steptune.readers.step import Reading, StepRecord
from steptune.readers.values import parse_number

_HEAD = re.compile(r"(?P<sync>✨ )?Global step (?P<number>\d{1,9}): (?=\{)")
MAX_BATCHES = 512
"""Training batches that are held: as many as recent steps are kept of a long log."""

_MARK = re.compile(
    r"Global step \d+: \{'|openrlhf\.cli\.|\bEpisode \[\d+/\d+\]: +\d+%"
    r"|\bTrain epoch \[\d+/\d+\]: .{0,200}\b(?:act_loss|pg)="
)
_EPOCH = re.compile(r"Train epoch \[\d+/\d+\]$")
_POSTFIX = re.compile(r"(?<=[ ,])(?P<key>[a-z_]{1,20})=(?P<value>[-+\w.]{1,20})(?=[,\]])")
_EPISODE = re.compile(r"Episode \[(?P<episode>\d+)/\d+\]$")


def is_mark(text: str) -> bool:
    """Whether only OpenRLHF prints such a line."""
    return _MARK.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield one step per dict, or per state of the episode's bar where there are no dicts."""
    return steps_of(_Reader(dicts=StepCollector(path=path), bars=StepCollector(path=path)), raw_lines)


@final
@dataclass(kw_only=True, slots=True)
class _Reader:
    dicts: StepCollector
    bars: StepCollector
    open_dict: DictText | None = None
    number: int = 0
    has_dicts: bool = field(default=False)
    batches: deque[StepRecord] = field(default_factory=lambda: deque[StepRecord](maxlen=MAX_BATCHES))
    """Of the bar over training batches, until it is known that no dict comes."""

    def feed(self, line: Line) -> Iterator[StepRecord]:
        """Take one row; yield the steps it closes."""
        if head := _HEAD.search(line.text):
            yield from self._close()
            self.open_dict, self.number = DictText.of(line, head.end()), int(head["number"])
        elif self.open_dict is not None:
            self.open_dict.add(line)
        elif not self.has_dicts:
            yield from self._bars(line)
        if self.open_dict is not None and self.open_dict.is_closed:
            yield from self._close()

    def end(self) -> Iterator[StepRecord]:
        """The input is over."""
        yield from self._close()
        yield from self.dicts.end()
        if not self.has_dicts:
            yield from self.bars.end()
            yield from self.batches

    def _close(self) -> Iterator[StepRecord]:
        record, self.open_dict = self.open_dict, None
        if record is not None:
            self.has_dicts = True
            yield from self.dicts.put(self.number, list(read_pairs(record)))

    def _bars(self, line: Line) -> Iterator[StepRecord]:
        for bar in find_bars(line.text):
            if _EPISODE.search(bar.label) and bar.done and "prompts_consumed" not in line.text:
                rate = Reading(key=BAR_KEY, value=bar.item_s, text=bar.text, line=line.number)
                yield from self.bars.put(bar.done, [rate, *_postfix(line, bar).values()])
            elif _EPOCH.search(bar.label):
                self._hold(_postfix(line, bar))

    def _hold(self, found: dict[str, Reading]) -> None:
        """Keep a batch's values; the bar is drawn again with the same ones when the next batch begins."""
        if found and not (self.batches and _texts(self.batches[-1].readings) == _texts(found)):
            self.batches.append(StepRecord(number=None, path=self.dicts.path, readings=found))


def _postfix(line: Line, bar: Bar) -> dict[str, Reading]:
    """Values behind a bar under the names of the dict; a value at the end of a cut line has no end and is none."""
    text = line.text[bar.start :].split("[", 1)[-1].split("%|", 1)[0]
    return {
        key: Reading(key=key, value=value, text=found["value"], line=line.number)
        for found in _POSTFIX.finditer(text)
        if (key := BAR_NAMES.get(found["key"])) and (value := parse_number(found["value"])) is not None
    }


def _texts(readings: Mapping[str, Reading]) -> dict[str, str]:
    return {key: reading.text for key, reading in readings.items()}
