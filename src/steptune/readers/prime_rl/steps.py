"""prime-rl's step lines become steps.

Three generations: fields with colons (`Time: 5.13s | Loss: 12.25`, from 3a19c92, 2025-07-09), then without, the time
bare and rounded (`5.1s | Loss 0.01`, `15m 56s | Reward 0.6`, since f6563ff, 2026-06-01). A line with a loss is the
trainer's, one with a reward the orchestrator's. Seconds are all a rounded `1h 5m` can give: nothing finer is there.
"""

import re
from collections.abc import Iterable, Iterator

from steptune.readers.formats.by_step import StepCollector
from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.pipes import read_fields
from steptune.readers.lines import Line, NumberedLine, clean_lines
from steptune.readers.prime_rl.keys import ORCHESTRATOR, TRAINER, ZERO_ADVANTAGE_KEY
from steptune.readers.step import Dropped, Reading, StepRecord

_STEP = re.compile(r"(?:^|\W)Step (?P<number>\d{1,9}) \| ")
_TRAINER = re.compile(r"\| ?Loss:? ")
_ORCHESTRATOR = re.compile(r"\| ?(?:Reward|Seq\. Length):? ")
_MARK = re.compile(r"SUCCESS Step \d+ \| |\| Max\. Off-Policy Level: |\| Trainable \d+/\d+ |\| Mismatch KL:? ")
_FILTERED = re.compile(
    r"Detected \d{1,9}/(?P<all>\d{1,9}) rollouts \((?:[\w=, ]*\W)?zero_advantage=(?P<zero>\d{1,9})\b"
)
"""`Detected 66/128 rollouts (gibberish=6, zero_advantage=60)` comes before the step it is about."""

_SHARED_NAMES = ("Time", "Throughput")
"""Fields that both processes print with different meanings."""


def is_mark(text: str) -> bool:
    """Whether only prime-rl prints such a line."""
    return _MARK.search(text) is not None


def read_steps(raw_lines: Iterable[NumberedLine], path: str) -> Iterator[StepRecord]:
    """Yield steps in order, trainer and orchestrator of one file merged."""
    collector = StepCollector(path=path)
    filtered: list[Reading | Dropped] = []
    for line in clean_lines(raw_lines):
        if dropped := _FILTERED.search(line.text):
            filtered = [_zero_advantage(dropped, line)]
        for number, text in _segments(line.text):
            owner = _owner(text)
            if owner is not None:
                extra = filtered if owner == ORCHESTRATOR else []
                yield from collector.put(number, [*_readings(text, owner, line), *extra])
                filtered = [] if owner == ORCHESTRATOR else filtered
    yield from collector.end()


def _segments(text: str) -> Iterator[tuple[int, str]]:
    """Number and fields of every step of one line: a list of lines printed as one holds several."""
    starts = list(_STEP.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):
        fields, quote, _ = text[start.end() : end].partition("', '")
        yield int(start["number"]), f"| {fields}{quote}"


def _owner(text: str) -> str | None:
    """Whose line it is; None for a line that only looks like a step."""
    if _TRAINER.search(text):
        return TRAINER
    return ORCHESTRATOR if _ORCHESTRATOR.search(text) else None


def _zero_advantage(found: re.Match[str], line: Line) -> Reading:
    share = int(found["zero"]) / max(int(found["all"]), 1)
    text = f"{found['zero']} of {found['all']}"
    return Reading(key=ZERO_ADVANTAGE_KEY, value=share, text=text, line=line.number)


def _readings(text: str, owner: str, line: Line) -> Iterator[Reading | Dropped]:
    fields = list(read_fields(text))
    for index, field in enumerate(fields, start=1):
        key = owner + field.name if field.name in _SHARED_NAMES else field.name
        if line.may_be_cut and index == len(fields) and not field.rest:
            yield Dropped(key=key, text=field.text, line=line.number, why="may have lost digits: the log ends here")
            continue
        seconds = parse_duration_s(field.text + field.rest) if field.name == "Time" and field.rest else field.value
        if seconds is not None:
            yield Reading(key=key, value=seconds, text=field.text, line=line.number)
