"""Whole configuration files, by their ending, with the parents they name on disk.

The surprise: the ending only says what to try first; a `.yaml` that holds a console log, or a `.txt` that holds a
launch script, is read as the mixture it is.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steptune.readers.config.interpolation import resolve
from steptune.readers.config.literal import read_literal
from steptune.readers.config.parents import Composition
from steptune.readers.config.python_text import read_python
from steptune.readers.config.read import read_config
from steptune.readers.config.settings import ConfigReading, from_entries, make_setting
from steptune.readers.config.shell import read_shell
from steptune.readers.config.toml_text import read_toml
from steptune.readers.config.tree import Map, flatten, unwrap_logged
from steptune.readers.lines import NumberedLine, read_numbered

MAX_BYTES = 8_000_000
"""Largest file that is taken whole as one configuration; anything larger is a log."""

_ENDINGS = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".env", ".yaml", ".yml", ".toml", ".json", ".py"})

_LOG_KEYS = ("log_history", "best_metric")
"""Keys of a `trainer_state.json`, which holds measurements."""


def is_config_file(path: Path) -> bool:
    """Whether a file's ending promises a configuration, so that `read_config_path` should read it whole."""
    return path.suffix.lower() in _ENDINGS


def read_config_path(path: Path) -> ConfigReading:
    """Return the settings of a whole file and notes about what could not be followed.

    Raises:
        OSError: the file cannot be read.
    """
    lines = read_numbered(path, max_chars=MAX_BYTES)
    try:
        reading = _by_ending(path, lines)
    except (RecursionError, ValueError, OverflowError):
        reading = None
    if reading is None:
        return read_config(lines, str(path))
    return replace(reading, settings=resolve(reading.settings))


def _by_ending(path: Path, lines: Sequence[NumberedLine]) -> ConfigReading | None:
    """Read as the ending promises; None when there is no promise or it is not kept."""
    name = str(path)
    match path.suffix.lower():
        case ".sh" | ".bash" | ".slurm" | ".sbatch" | ".env":
            reading = read_shell(lines, name, path.parent)
            return reading if reading.settings or reading.notes else None
        case ".yaml" | ".yml":
            return _read_yaml_file(path)
        case ".toml":
            return ConfigReading(settings=tuple(from_entries(flatten(read_toml(lines)), "file", name)))
        case ".json":
            return _read_json(lines, name)
        case ".py":
            settings = read_python(lines, name)
            return None if settings is None else ConfigReading(settings=settings)
        case _:
            return None


def _read_yaml_file(path: Path) -> ConfigReading:
    composition = Composition(roots=[path.parent])
    placed = composition.compose(path.resolve())
    own = str(path.resolve())
    settings = (
        make_setting(
            key=item.entry.key,
            value=item.entry.value,
            text=item.entry.text,
            layer="file",
            path=str(path) if item.path == own else item.path,
            line=item.entry.line,
            is_resolved="${" not in item.entry.text,
        )
        for item in placed
    )
    return ConfigReading(
        settings=(*composition.missing, *settings),
        notes=tuple(composition.notes),
        files=tuple(str(file) for file in composition.files if str(file) != own),
    )


def _read_json(lines: Sequence[NumberedLine], name: str) -> ConfigReading | None:
    """Read one JSON object; measurements give nothing, here and in the mixed reading that None would ask for."""
    text = "\n".join(line for _, line in lines)
    node = read_literal(text, [number for number, _ in lines] or [1])
    if not isinstance(node, Map) or any(key in _LOG_KEYS for key, _, _ in node.items):
        return ConfigReading()
    return ConfigReading(settings=tuple(from_entries(flatten(unwrap_logged(node)), "file", name)))
