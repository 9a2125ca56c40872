"""Faults of the configuration that the input itself states: the error text of a framework that said no.

The surprise: such a text needs no configuration beside it. It holds the numbers that clash, often after products and
quotients that no key shows, so it is worth more than a rule that has to guess them.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Excerpt, ExcerptKind, Paste
from steptune.core.records import Record

KINDS = (ExcerptKind.ERROR, ExcerptKind.OOM, ExcerptKind.WARNING)
"""Excerpts that may hold a refusal; an engine's text about lengths may read like one about memory."""

MAX_SHOWN = 240
"""Characters of a message that the evidence repeats."""

LABELS = {True: "same algorithm", False: "changes what is trained"}
"""What a fix does to the training, where that is known."""

_HOLE = re.compile(r"\{(\w+)\}")


class StatedFix(Record):
    """What to do: ``StatedFix(text="make the product {above}", same_algorithm=False)``."""

    text: str
    same_algorithm: bool | None = None
    """Unknown where it depends on what the numbers count."""


class StatedError(Record):
    """One row of ``stated_errors.toml``."""

    id: str
    framework: str
    pattern: str
    """With named groups, which fill the holes of the texts."""
    value: str = ""
    """Group of the number that is no multiple."""
    multiple_of: str = ""
    """Group of the number it should be a multiple of."""
    message: str
    why: str
    fixes: tuple[StatedFix, ...]
    source: str

    @property
    def code(self) -> str:
        """Code of the finding."""
        return f"lint/{self.framework}/{self.id}"


@cache
def stated_errors() -> tuple[StatedError, ...]:
    """Return the known texts, in the order of the file."""
    text = files("steptune.lint").joinpath("stated_errors.toml").read_text(encoding="utf-8")
    return tuple(StatedError.model_validate(row) for row in tomllib.loads(text)["error"])


def stated_findings(paste: Paste) -> Iterator[Finding]:
    """Yield one finding for every refusal that ``paste`` states, repetitions by other ranks left out."""
    seen: list[tuple[str, dict[str, str]]] = []
    for excerpt in paste.excerpts:
        found = _first(" ".join(excerpt.text.split())) if excerpt.kind in KINDS else None
        if found is None:
            continue
        error, words = found
        if not any(code == error.code and _says_it(before, words) for code, before in seen):
            seen.append((error.code, words))
            yield _finding(error, words, excerpt)


def _says_it(before: dict[str, str], words: dict[str, str]) -> bool:
    """Whether another refusal said the same: the same numbers, or the same key with the path it stands in."""
    key = words.get("key")
    return before == words or (key is not None and f".{before.get('key')}".endswith(f".{key}"))


def _first(text: str) -> tuple[StatedError, dict[str, str]] | None:
    for error in stated_errors():
        match = _compiled(error.pattern).search(text)
        if match is not None:
            words = {name: value for name, value in match.groupdict().items() if value is not None}
            return error, {**words, **_multiples(error, words)}
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _multiples(error: StatedError, words: dict[str, str]) -> dict[str, str]:
    """Nearest multiples; below one of them there is only the one above."""
    if not error.value:
        return {}
    value, step = int(words[error.value]), int(words[error.multiple_of])
    if step <= 0:
        return {}
    below = value // step * step
    above = below + step
    return {"nearest": f"{below} or {above}" if below else str(above), "above": str(above)}


def _finding(error: StatedError, words: dict[str, str], excerpt: Excerpt) -> Finding:
    shown = " ".join(excerpt.text.split())
    shown = shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 3]}..."
    return Finding(
        code=error.code,
        kind=FindingKind.LINT,
        severity=Severity.FAULT,
        title=_filled(error.message, words),
        evidence=(
            Evidence(text=shown, origin=excerpt.origin),
            Evidence(text=f"{_filled(error.why, words)}; source: {error.source}"),
        ),
        remedies=tuple(_remedy(fix, words, error.source) for fix in error.fixes),
    )


def _remedy(fix: StatedFix, words: dict[str, str], source: str) -> Remedy:
    label = "" if fix.same_algorithm is None else f" ({LABELS[fix.same_algorithm]})"
    return Remedy(
        text=f"{_filled(fix.text, words)}{label}", keeps_algorithm=fix.same_algorithm is not False, source=source
    )


def _filled(text: str, words: dict[str, str]) -> str:
    return _HOLE.sub(lambda hole: words.get(hole[1], "?"), text)
