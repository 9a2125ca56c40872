"""The configuration that one input file holds: whole, with its parents on disk, or mixed into something else.

The surprise: an ending promises nothing. A `.yaml` without parents is read as the mixture it may be, because a console
log in it would make keys of its words; a parent handed in by name as well is read once, below its child.
"""

from collections.abc import Sequence
from pathlib import Path

from steptune.readers.config.files import is_config_file, read_config_path
from steptune.readers.config.read import read_config
from steptune.readers.config.settings import ConfigReading
from steptune.readers.lines import NumberedLine
from steptune.readers.scan.head import HEAD_BYTES

_YAML = frozenset((".yaml", ".yml"))


def config_of(path: Path, lines: Sequence[NumberedLine]) -> ConfigReading:
    """Return the settings of a file whose beginning is ``lines``, clean and without log messages."""
    whole = _whole(path) if is_config_file(path) else None
    return read_config(lines, str(path)) if whole is None else whole


def _whole(path: Path) -> ConfigReading | None:
    """Return what the ending promises; None where the file is no such text or names nobody that could be followed."""
    try:
        if path.stat().st_size > HEAD_BYTES or b"\0" in path.read_bytes():
            return None
        reading = read_config_path(path)
    except OSError:
        return None
    return reading if path.suffix.lower() not in _YAML or reading.files else None


def is_read_elsewhere(paths: Sequence[Path], readings: Sequence[ConfigReading]) -> list[bool]:
    """Return for every file whether another's reading holds its settings; of two that name each other one stays."""
    held: set[Path] = set()
    places = [path.resolve() for path in paths]
    for place, reading in zip(places, readings, strict=True):
        if place not in held:
            held |= {Path(file).resolve() for file in reading.files} - {place}
    return [place in held for place in places]
