"""The entry of the configuration readers: any lines, any mixture, to settings in order.

The surprise: nothing here fails. A line that is no configuration is passed over, a damaged one gives what it
still says, and a value that depends on something unseen is marked unresolved instead of being guessed.
"""

from collections.abc import Iterable, Iterator

from steptune.core.paste import Setting
from steptune.readers.config.blocks import Block, cut_blocks
from steptune.readers.config.interpolation import resolve
from steptune.readers.config.line_kinds import CONFIG_LINE, is_metric_name, is_prose
from steptune.readers.config.markdown import plain
from steptune.readers.config.override_list import read_override_list
from steptune.readers.config.printed import read_dots, read_tree
from steptune.readers.config.python_text import read_bare_lines
from steptune.readers.config.quoted_flags import read_quoted_flags
from steptune.readers.config.settings import ConfigReading, from_entries, unresolved_parent
from steptune.readers.config.shell import ShellRun
from steptune.readers.config.toml_text import read_toml
from steptune.readers.config.tree import Entry, flatten, unwrap_logged
from steptune.readers.config.yaml_text import NumberedLine, read_yaml

__all__ = ["CONFIG_LINE", "read_config", "read_settings"]


def read_settings(lines: Iterable[NumberedLine], path: str) -> tuple[Setting, ...]:
    """Return the settings of a paste in order, duplicates kept. ``lines`` are clean, with their line numbers.

    Lines that `CONFIG_LINE` refuses may be left out. Never raises for what the lines hold.
    """
    return read_config(lines, path).settings


def read_config(lines: Iterable[NumberedLine], path: str) -> ConfigReading:
    """Return the settings of a paste and notes about what could not be followed."""
    settings: list[Setting] = []
    run = ShellRun(path=path)
    for block in cut_blocks(plain(lines)):
        if block.language == "shell":
            run.run(block.lines)
        else:
            settings += _read_safely(block, path)
    shell = run.finish()
    parents = [unresolved_parent(str(s.value), path, s.origin.line) for s in settings if _is_parent(s)]
    known = [setting for setting in settings if not _is_parent(setting)]
    return ConfigReading(
        settings=(*(setting for setting, _ in parents), *resolve([*known, *shell.settings])),
        notes=(*(note for _, note in parents), *shell.notes),
    )


def _is_parent(setting: Setting) -> bool:
    """Whether a pasted YAML names a parent: it has lost its folder, so the parent cannot be looked for."""
    return setting.layer == "file" and setting.key.partition(".")[0] == "defaults"


def _read_safely(block: Block, path: str) -> list[Setting]:
    """Read one block; one that is nested beyond reason gives nothing."""
    try:
        return list(_read_block(block, path))
    except (RecursionError, ValueError, OverflowError):
        return []


def _read_block(block: Block, path: str) -> Iterator[Setting]:
    if block.language == "yaml":
        return from_entries(_yaml_entries(block), "file", path)
    if block.language == "section":
        return from_entries(flatten(read_toml(block.lines)), "file", path)
    if block.language == "tree":
        return read_tree(block.lines, path)
    if block.language == "overrides":
        return read_override_list(block.lines, path)
    if block.language == "quoted_flags":
        return read_quoted_flags(block.lines, path)
    if block.language == "spaced":
        return read_bare_lines(block.lines, path)
    return read_dots(block.lines, path)


def _yaml_entries(block: Block) -> Iterator[Entry]:
    """Yield the entries of a block that looks like a configuration and not like a printed measurement or prose."""
    entries = list(flatten(unwrap_logged(read_yaml(block.lines))))
    is_flat = all("." not in entry.key for entry in entries)
    entries = [entry for entry in entries if not (_is_message(entry) if is_flat else is_prose(entry.text))]
    kept = [entry for entry in entries if not is_metric_name(entry.key) and _is_config_key(entry.key)]
    if len(kept) * 2 >= len(entries):
        yield from kept


def _is_message(entry: Entry) -> bool:
    """Whether a pair outside any nesting is a program talking (`wandb: Syncing run x`) or a heading."""
    return (isinstance(entry.value, str) and " " in entry.text.strip()) or (entry.value is None and entry.text == "")


def _is_config_key(key: str) -> bool:
    """Whether a key could be one: a single capitalised word (`INFO`, `Traceback`) is none."""
    return not key[:1].isupper() or "_" in key or "." in key
