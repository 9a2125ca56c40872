"""Printed and pasted trees: Python dicts, JSON, `GRPOConfig(...)`, Megatron's table of arguments.

The surprise: logs print their measurements in the same forms, so a tree whose keys are names of metrics, or whose
values are all numbers in quotes, is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from steptune.core.paste import Setting
from steptune.readers.config.arguments import values_of
from steptune.readers.config.calls import is_trainer, key_prefix
from steptune.readers.config.line_kinds import is_metric_name
from steptune.readers.config.literal import read_literal, read_mapping_fragment
from steptune.readers.config.scalars import parse_scalar
from steptune.readers.config.settings import Layer, from_entries, make_setting
from steptune.readers.config.tree import Entry, Leaf, Map, Node, flatten, unwrap_logged
from steptune.readers.config.yaml_text import NumberedLine

MAX_METRIC_SHARE = 0.34
"""Part of a printed mapping's keys that may be names of metrics before all of it counts as metrics."""

_DOTS = re.compile(r"\s*(?P<key>[a-z_]\w*) \.{3,} (?P<value>.*)")
_BEFORE_BRACE = re.compile(r"(?:[\w.]+\s*[=:]\s*)?")
_CALL = re.compile(r"(?:[\w.]+\s*=\s*)?(?P<name>[\w.]+)\s*(?=\()")


def read_tree(lines: Sequence[NumberedLine], path: str) -> Iterator[Setting]:
    """Yield the settings of a printed mapping or of a configuration call."""
    numbers = [number for number, _ in lines]
    text = "\n".join(line for _, line in lines).lstrip()
    before, brace, _ = text.partition("{")
    if brace and _BEFORE_BRACE.fullmatch(before):
        return _entries_of(read_literal(text[len(before) :], numbers), "file", path)
    if found := _CALL.match(text):
        return _read_call(found["name"], read_literal(text[found.start("name") :], numbers), path)
    return _entries_of(read_mapping_fragment(text, numbers), "file", path)


def _read_call(name: str, node: Node, path: str) -> Iterator[Setting]:
    if is_trainer(name) and isinstance(node, Map):
        inner = next((value for key, _, value in node.items if key == "args"), None)
        yield from _entries_of(inner, "code", path)
    elif (prefix := key_prefix(name)) is not None:
        yield from _entries_of(node, "code", path, prefix)


def _entries_of(node: Node | None, layer: Layer, path: str, prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a mapping; one that holds measurements gives nothing."""
    entries = list(flatten(unwrap_logged(node))) if isinstance(node, Map) else []
    metrics = sum(is_metric_name(entry.key) for entry in entries)
    if entries and metrics <= MAX_METRIC_SHARE * len(entries) and not _are_quoted_numbers(node):
        yield from from_entries((_below(entry, prefix) for entry in entries), layer, path)


def _below(entry: Entry, prefix: str) -> Entry:
    return replace(entry, key=prefix + entry.key) if prefix and entry.key else entry


def _are_quoted_numbers(node: Node | None) -> bool:
    """Whether a mapping holds only numbers in quotes: how SkyRL prints metrics."""
    values = [value for _, _, value in node.items] if isinstance(node, Map) else []
    return bool(values) and all(
        isinstance(value, Leaf) and isinstance(value.value, str) and isinstance(parse_scalar(value.text), int | float)
        for value in values
    )


def read_dots(lines: Sequence[NumberedLine], path: str) -> Iterator[Setting]:
    """Yield the settings of Megatron's table: ``micro_batch_size ........ 1``."""
    for number, text in lines:
        if found := _DOTS.match(text):
            written = found["value"].strip()
            for key, value in values_of(found["key"], written, number):
                yield make_setting(key=key, value=value, text=written, layer="file", path=path, line=number)
