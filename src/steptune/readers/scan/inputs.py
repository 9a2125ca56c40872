"""The first look at every file: what kind it is, what its beginning says, and which framework it speaks for."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import final

from steptune.core.paste import DeviceClaim, Excerpt, ExcerptKind
from steptune.readers.config.settings import ConfigReading
from steptune.readers.lines import NumberedLine
from steptune.readers.metrics.kinds import MetricsReader, metrics_reader
from steptune.readers.scan.config_of import config_of, is_read_elsewhere
from steptune.readers.scan.devices import read_devices
from steptune.readers.scan.head import head_lines
from steptune.readers.scan.phase_table import row_names
from steptune.readers.scan.table_rows import read_table_rows
from steptune.readers.scan.told import Told, read_told
from steptune.readers.scan.votes import Votes, file_votes, key_votes, setting_votes, shared_votes, table_votes

_LEVEL = re.compile(r"(?:\[?(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\b|\(?EngineCore|  warnings\.warn)")
"""Beginning of a log message, which never holds a setting but can look like one: `INFO: 10.0.0.1 - "POST ...`."""

_LOGGED_CALL = re.compile(
    r".{0,120}?\bINFO\b.{0,80}?[\s:](?=(?:\w*Arguments|(?:GRPO|RLOO|OnlineDPO|PPO|DPO|SFT|Model)Config)\()"
)
"""What a logger puts before the arguments it prints: `[INFO:swift] args: RLHFArguments(`."""

ROWS_LOOKED_AT = 64
"""Records of a metrics file whose keys vote."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """One file after the first look. A metrics file has a reader and no text."""

    path: Path
    metrics: MetricsReader | None
    votes: Votes
    hints: Votes = field(default_factory=Votes)
    """Votes of what frameworks share: they count where nothing else votes."""
    config: ConfigReading = field(default_factory=ConfigReading)
    devices: DeviceClaim | None = None
    told: Told
    table_rows: tuple[Excerpt, ...] = ()
    table_lines: tuple[NumberedLine, ...] = ()
    """Lines that may be rows of a table."""


def look_at(path: Path) -> InputFile:
    """Return what the file's kind and beginning say.

    Raises:
        ReadError: the file cannot be opened.
    """
    name, reader = str(path), metrics_reader(path)
    if reader is not None:
        keys = [key for row in islice(reader(path), ROWS_LOOKED_AT) for key in row.values]
        votes, hints = key_votes(keys), shared_votes(keys)
        return InputFile(path=path, metrics=reader, votes=votes, hints=hints, told=Told(facts=(), path=name))
    lines = head_lines(path)
    bare = [(number, _without_logger(text)) for number, text in lines]
    config = config_of(path, [line for line in bare if not _LEVEL.match(line[1])])
    told = read_told(lines, name)
    table_lines = tuple(line for line in lines if line[1].lstrip().startswith(("|", "│", "┃")))
    return InputFile(
        path=path,
        metrics=None,
        votes=file_votes(path) + setting_votes(config.settings) + table_votes(row_names(table_lines)),
        hints=shared_votes(setting.key for setting in config.settings),
        config=config,
        devices=_merged([told.devices(), read_devices(lines, name)]),
        told=told,
        table_rows=read_table_rows(lines, name),
        table_lines=table_lines,
    )


def without_parents(files: Sequence[InputFile]) -> list[InputFile]:
    """Return the files; one whose configuration another's holds has none of its own, or it would come twice."""
    held = is_read_elsewhere([file.path for file in files], [file.config for file in files])
    return [replace(file, config=ConfigReading()) if one else file for file, one in zip(files, held, strict=True)]


def devices_of(files: Iterable[InputFile], excerpts: Iterable[Excerpt]) -> DeviceClaim | None:
    """Return what all files together say of the devices, out-of-memory texts included."""
    oom = (e for e in excerpts if e.kind is ExcerptKind.OOM)
    stated = (read_devices([(e.origin.line, e.text)], e.origin.path) for e in oom)
    return _merged([*(file.devices for file in files), *stated])


def _without_logger(text: str) -> str:
    found = _LOGGED_CALL.match(text) if "INFO" in text and "(" in text else None
    return text if found is None else text[found.end() :]


def _merged(claims: Iterable[DeviceClaim | None]) -> DeviceClaim | None:
    """The first statement of each kind."""
    stated = [claim for claim in claims if claim is not None]
    if not stated:
        return None
    return DeviceClaim(
        name=next((claim.name for claim in stated if claim.name), None),
        count=next((claim.count for claim in stated if claim.count), None),
        memory_gib=next((claim.memory_gib for claim in stated if claim.memory_gib), None),
        origin=stated[0].origin,
    )
