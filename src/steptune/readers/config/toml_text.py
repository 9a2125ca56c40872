"""TOML text becomes a tree with lines: values from the standard parser, lines found in the text.

The surprise: `tomllib` knows no lines, so a second, simple scan looks for `[section]` and `key =`; a key it cannot
place (inside an inline table) gets its section's line.
"""

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from steptune.readers.config.literal import read_literal
from steptune.readers.config.tree import Leaf, Map, Node, Seq, join
from steptune.readers.config.yaml_text import NumberedLine

_SECTION = re.compile(r"\s*(?P<open>\[{1,2})(?P<name>[^\[\]]+)\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"\s*(?P<key>[A-Za-z_\"'][\w.\"'-]*)\s*=\s*(?P<value>.*)$")


def read_toml(lines: Sequence[NumberedLine]) -> Map:
    """Return the tree of the lines; damaged TOML gives what its lines say one by one."""
    places = _places(lines)
    first = lines[0][0] if lines else 1
    try:
        parsed = tomllib.loads("\n".join(text for _, text in lines))
        return _map(parsed, "", first, places)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return _read_lines(lines, first)


def _places(lines: Sequence[NumberedLine]) -> dict[str, int]:
    """Return the line of every key and section that stands on a line of its own."""
    places: dict[str, int] = {}
    tables: dict[str, int] = {}
    section = ""
    for number, text in lines:
        if found := _SECTION.match(text):
            section = _bare_key(found["name"])
            if found["open"] == "[[":
                tables[section] = tables.get(section, -1) + 1
                section = f"{section}.{tables[section]}"
            places.setdefault(section, number)
        elif found := _KEY.match(text):
            places.setdefault(join(section, _bare_key(found["key"])), number)
    return places


def _bare_key(text: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in text.split("."))


def _map(table: dict[str, Any], prefix: str, line: int, places: dict[str, int]) -> Map:
    items: list[tuple[str, int, Node]] = []
    for name, value in table.items():
        key = join(prefix, name)
        at = places.get(key, line)
        items.append((name, at, _node(value, key, at, places)))
    return Map(items=tuple(items), line=line)


def _node(value: Any, key: str, line: int, places: dict[str, int]) -> Node:  # noqa: ANN401 - as tomllib gives it
    if isinstance(value, dict):
        return _map(value, key, line, places)
    if isinstance(value, list):
        at = [places.get(f"{key}.{position}", line) for position in range(len(value))]
        return Seq(items=tuple(_node(v, f"{key}.{p}", at[p], places) for p, v in enumerate(value)), line=line)
    is_scalar = isinstance(value, bool | int | float | str)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Leaf(value=value if is_scalar and value == value else text, text=text, line=line)


def _read_lines(lines: Sequence[NumberedLine], first: int) -> Map:
    items: list[tuple[str, int, Node]] = []
    section = ""
    for number, text in lines:
        if found := _SECTION.match(text):
            section = _bare_key(found["name"])
        elif found := _KEY.match(text):
            items.append((join(section, _bare_key(found["key"])), number, read_literal(found["value"], [number])))
    return Map(items=tuple(items), line=first)
