"""The package's data, typed: signs of memory failures, remedies, vocabulary sizes. Each row names its source."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from steptune.core.knob import KnobValue
from steptune.core.records import Record

Meaning = Literal["failure", "maybe_host", "maybe_device", "lost", "non_fatal", "pool_conflict"]
"""What a matching line is: a failure, a kill or a library that will not start and may have other causes, a process that
died for a reason the line does not know, a harmless message, two allocators at odds."""

Move = Literal[
    "shrink", "shrink_budget", "grow", "set", "lower_share", "raise_share", "to_free", "to_sequence", "halve"
]
"""How a remedy's value follows from the present one (see `moves`)."""


class TextSign(Record):
    """A message that is about memory: ``TextSign(meaning="failure", phase="host", pattern="oom-kill:", ...)``."""

    meaning: Meaning
    phase: str | None = None
    pattern: str
    source: str


class FrameSign(Record):
    """A frame that tells the phase: ``FrameSign(phase="backward", pattern="run_backward", source=...)``."""

    phase: str
    pattern: str
    source: str


class KeyMove(Record):
    """One key of one framework that carries a remedy out."""

    framework: str
    key: str
    move: Move
    value: KnobValue = None
    """For ``set``; for the other moves what to write when the present value is unknown."""
    default: KnobValue = None
    """The framework's own default where the table of known keys has none: an expression, or no such table."""
    follows: str = ""
    """Key whose value this one has where it is not set."""
    when: dict[str, KnobValue] = {}
    """Keys that must have these values, the framework's own defaults counted."""
    backend: Literal["", "fsdp", "megatron"] = ""
    """Training backend that reads the key; empty for any."""
    is_partner: bool = False
    """Must be changed with the other keys of the remedy, never alone."""


class RemedyRule(Record):
    """One remedy for some phases."""

    name: str
    phases: tuple[str, ...]
    only_text: str = ""
    """Pattern that the message or frames must match."""
    needs_others: bool = False
    """Only where other processes hold a large part of the card."""
    text: str
    keeps_algorithm: bool = True
    is_warning: bool = False
    """What not to do: shown last, with no lines."""
    source: str
    keys: tuple[KeyMove, ...] = ()


class VocabRule(Record):
    """Vocabulary size (rows of the output layer) of a model family, by a pattern on its name."""

    pattern: str
    vocab_size: int
    source: str


class FrameworkRule(Record):
    """What the advice needs to know of one framework's configuration language."""

    name: str
    language: Literal["hydra", "hydra_lower", "flags", "toml", "python"]
    sequence_keys: tuple[str, ...] = ()
    """Keys whose sum is the longest sequence in tokens."""
    model_keys: tuple[str, ...] = ()
    micro_keys: tuple[str, ...] = ()
    """Samples in one training micro batch."""
    budget_keys: tuple[str, ...] = ()
    """Tokens in one training micro batch."""
    budget_when: dict[str, KnobValue] = {}
    """Settings under which the token budget, and not the samples, is what counts."""
    vocab_split_keys: tuple[str, ...] = ()
    """Keys whose product divides the vocabulary over devices."""
    share_keys: tuple[str, ...] = ()
    """The engine's share of the card."""
    megatron_switch: str = ""
    """Setting that chooses Megatron as the training backend."""


@cache
def text_signs() -> tuple[TextSign, ...]:
    """Return the message signs, most telling first."""
    return tuple(TextSign.model_validate(row) for row in _rows("signs.toml", "text"))


@cache
def frame_signs() -> tuple[FrameSign, ...]:
    """Return the frame signs, most telling first."""
    return tuple(FrameSign.model_validate(row) for row in _rows("signs.toml", "frame"))


@cache
def remedy_rules() -> tuple[RemedyRule, ...]:
    """Return the remedies, smallest change first."""
    return tuple(RemedyRule.model_validate(row) for row in _rows("remedies.toml", "remedy"))


@cache
def vocab_rules() -> tuple[VocabRule, ...]:
    """Return the vocabulary sizes, most specific pattern first."""
    return tuple(VocabRule.model_validate(row) for row in _rows("vocabularies.toml", "model"))


@cache
def framework_rules() -> dict[str, FrameworkRule]:
    """Return the frameworks by the name that `Paste.framework` carries."""
    rules = [FrameworkRule.model_validate(row) for row in _rows("frameworks.toml", "framework")]
    return {rule.name: rule for rule in rules}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; the tables hold a few dozen."""
    return re.compile(pattern, re.MULTILINE)


def _rows(file: str, table: str) -> list[dict[str, object]]:
    text = files("steptune.memory").joinpath(file).read_text(encoding="utf-8")
    return cast("list[dict[str, object]]", tomllib.loads(text)[table])
