"""Logs on disk become a Profile: the way in for every command that is handed a log."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from steptune.core.errors import ReadError, explain
from steptune.core.profile import Profile
from steptune.readers.facts import read_facts
from steptune.readers.frameworks import FRAMEWORKS, every_framework, framework
from steptune.readers.lines import clean
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord

_PASTED = "<text>"
"""Path of lines that came from no file."""


def read_profile(paths: Sequence[Path]) -> Profile:
    """Return the mean step of one job's logs.

    Raises:
        ReadError: no file can be read, no framework is recognised, two are mixed, or no step has a step time.
    """
    return read_log(paths).profile


def read_log(paths: Sequence[Path]) -> LogReading:
    """As `read_profile`, with the notes on values that are implausible or were left out.

    Raises:
        ReadError: as `read_profile`.
    """
    named = {str(path): name for path in paths if (name := _framework_of(path)) is not None}
    if len(set(named.values())) != 1:
        got = ", ".join(f"{path} ({name})" for path, name in named.items()) or _names(paths)
        raise ReadError(
            explain(
                "logs must be of one framework that steptune reads",
                got=got,
                allowed=", ".join(FRAMEWORKS),
                hint="pass the console output of the training driver, with at least one whole step",
            )
        )
    reader = framework(next(iter(named.values())))
    records = [
        record for path in paths for record in reader.read_steps(enumerate(_raw_lines(path), start=1), str(path))
    ]
    facts = read_facts(raw for path in paths for raw in _raw_lines(path))
    reading = reader.to_reading(records, facts)
    if reading is None:
        raise _no_step_error(paths, records, reader.step_mark)
    return reading


def read_steps(lines: Iterable[str], path: str = _PASTED) -> Iterator[StepRecord]:
    """Yield the steps of one log as they become whole; holds no more than the lines of one step.

    Lines keep their line ends, as a file yields them: a last line without one may be cut short.

    Raises:
        ReadError: no line tells the framework.
    """
    head: list[str] = []
    rest = iter(lines)
    for raw in rest:
        head.append(raw)
        name = _framework_of_line(raw)
        if name is not None:
            yield from framework(name).read_steps(enumerate(chain(head, rest), start=1), path)
            return
    raise _unknown_error(path)


def detect(text: str) -> str:
    """Return the name of the framework that printed ``text``, by its first line that only one of them prints.

    Raises:
        ReadError: no such line.
    """
    for raw in text.splitlines():
        if name := _framework_of_line(raw):
            return name
    raise _unknown_error(_PASTED)


def _framework_of(path: Path) -> str | None:
    return next((name for raw in _raw_lines(path) if (name := _framework_of_line(raw))), None)


def _framework_of_line(raw: str) -> str | None:
    text = clean(raw)
    return next((row.name for row in every_framework() if row.is_mark(text)), None)


def _raw_lines(path: Path) -> Iterator[str]:
    """Yield lines with their ends. Bytes that are no UTF-8 become replacement characters, which parse as nothing."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file
    except OSError as error:
        raise ReadError(
            explain(
                "log cannot be read", got=f"{path} ({error.strerror})", allowed="a text file", hint="check the path"
            )
        ) from error


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths) or "no file"


def _unknown_error(path: str) -> ReadError:
    marks = "; ".join(f"{row.name} prints {row.step_mark}" for row in every_framework())
    return ReadError(
        explain("log must be of a known framework", got=path, allowed=", ".join(FRAMEWORKS), hint=f"{marks}")
    )


def _no_step_error(paths: Sequence[Path], records: Sequence[StepRecord], mark: str) -> ReadError:
    numbers = ", ".join("unnumbered" if r.number is None else str(r.number) for r in records[:5])
    found = f"{len(records)} steps without one (step {numbers})" if records else "no step at all"
    hint = "the step line may be cut or hold only validation: paste one whole training step with its timings"
    return ReadError(explain(f"{_names(paths)} must hold a step time", got=found, allowed=mark, hint=hint))
