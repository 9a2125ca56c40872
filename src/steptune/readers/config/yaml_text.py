"""YAML text becomes a tree with lines: strictly where it parses, line by line where it does not.

The surprise: pasted YAML is rarely valid (a fragment that starts indented, a missing space after a colon), so
the fallback is the common case for posts and the strict way the common case for files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import yaml

from steptune.readers.config.literal import MAX_DEPTH, read_literal
from steptune.readers.config.scalars import parse_yaml_scalar, unquote
from steptune.readers.config.tree import Leaf, Map, Node, Seq

NumberedLine = tuple[int, str]
"""Line number in the input, counted from 1, and the line."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PAIR = re.compile(r"(?P<key>'[^']*'|\"[^\"]*\"|[^\s:#'\"{\[][^\s:]*) *:(?:\s+(?P<value>.*)|(?P<tight>[\w.+$-]\S*)|)$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_LINE_ENDS = re.compile("[\r\x85\u2028\u2029]")
"""What PyYAML also ends a line at, and counts."""

_MAX_ALIASES = 200
"""Nodes an anchor may be repeated in before the text counts as hostile (a "billion laughs" file)."""


def read_yaml(lines: Sequence[NumberedLine]) -> Map:
    """Return the tree of the lines; text that is no YAML gives what its `key: value` lines say."""
    numbers = [number for number, _ in lines]
    text = "\n".join(_LINE_ENDS.sub(" ", line) for _, line in lines)
    try:
        node = yaml.compose(text, Loader=_LOADER)
        tree = _Converter(numbers=numbers).convert(node) if isinstance(node, yaml.MappingNode) else None
    except (yaml.YAMLError, RecursionError, ValueError):
        return read_yaml_lines(lines)
    return tree if isinstance(tree, Map) else read_yaml_lines(lines)


@final
@dataclass(kw_only=True, slots=True)
class _Converter:
    """Turns PyYAML's nodes into ours, following anchors and merge keys."""

    numbers: list[int]
    inside: set[int] = field(default_factory=set[int])
    seen: dict[int, int] = field(default_factory=dict[int, int])

    def convert(self, node: yaml.Node) -> Node:
        line = self._line(node)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, line)
        times = self.seen[id(node)] = self.seen.get(id(node), 0) + 1
        if id(node) in self.inside or times > _MAX_ALIASES or len(self.inside) > MAX_DEPTH:
            return Leaf(value=None, text="", line=line)
        self.inside.add(id(node))
        try:
            return self._convert_collection(node, line)
        finally:
            self.inside.discard(id(node))

    def _convert_collection(self, node: yaml.Node, line: int) -> Node:
        if isinstance(node, yaml.SequenceNode):
            return Seq(items=tuple(self.convert(child) for child in node.value), line=line)
        items: list[tuple[str, int, Node]] = []
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            value = self.convert(value_node)
            if key == "<<" and isinstance(value, Map):
                items.extend(value.items)
            else:
                items.append((key, self._line(key_node), value))
        return Map(items=tuple(items), line=line)

    def _line(self, node: yaml.Node) -> int:
        mark = node.start_mark
        return self.numbers[min(mark.line, len(self.numbers) - 1)] if mark is not None and self.numbers else 1


def _scalar(node: yaml.ScalarNode, line: int) -> Leaf:
    text = str(node.value)
    is_plain = not node.style and node.tag.startswith("tag:yaml.org")
    return Leaf(value=parse_yaml_scalar(text) if is_plain else text, text=text, line=line)


@final
@dataclass(kw_only=True, slots=True)
class _Open:
    """A mapping or list being filled; `indent` is that of its entries."""

    indent: int
    key: str
    line: int
    pairs: list[tuple[str, int, Node]] = field(default_factory=list[tuple[str, int, Node]])
    items: list[Node] = field(default_factory=list[Node])

    def node(self) -> Node:
        if self.items:
            return Seq(items=tuple(self.items), line=self.line)
        return Map(items=tuple(self.pairs), line=self.line)


def read_yaml_lines(lines: Sequence[NumberedLine]) -> Map:
    """Return what the `key: value` lines say, nested by indentation; any other line is passed over."""
    root = _Open(indent=-1, key="", line=lines[0][0] if lines else 1)
    stack = [root]
    for number, raw in lines:
        text = _COMMENT.sub("", raw.expandtabs(2)).rstrip()
        body = text.lstrip()
        indent = len(text) - len(body)
        while body.startswith("- ") and _PAIR.match(body[2:].lstrip()):
            _close_to(stack, indent + 1)
            stack.append(_Open(indent=indent + 1, key="-", line=number))
            body = body[2:].lstrip()
            indent = len(text) - len(body)
        if body.startswith("- "):
            _close_to(stack, indent + 1)
            stack[-1].items.append(_value_leaf(body[2:], number))
        elif pair := _PAIR.match(body):
            _add_pair(stack, indent, number, pair)
    _close_to(stack, 0)
    _close_to(stack, -1)
    return Map(items=tuple(root.pairs), line=root.line)


def _add_pair(stack: list[_Open], indent: int, number: int, pair: re.Match[str]) -> None:
    key = unquote(pair["key"])[0]
    value = pair["value"] or pair["tight"] or ""
    _close_to(stack, indent)
    if value:
        stack[-1].pairs.append((key, number, _value_leaf(value, number)))
    else:
        stack.append(_Open(indent=indent + 1, key=key, line=number))


def _close_to(stack: list[_Open], indent: int) -> None:
    """Finish everything whose entries stand further right than ``indent``."""
    while len(stack) > 1 and stack[-1].indent > indent:
        done = stack.pop()
        node = done.node()
        if isinstance(node, Map) and not node.items:
            node = Leaf(value=None, text="", line=done.line)
        if done.key == "-":
            stack[-1].items.append(node)
        else:
            stack[-1].pairs.append((done.key, done.line, node))


def _value_leaf(text: str, line: int) -> Node:
    bare = text.strip()
    if bare[:1] in ("[", "{"):
        return read_literal(bare, [line])
    inner, is_quoted = unquote(bare)
    return Leaf(value=inner if is_quoted else parse_yaml_scalar(inner), text=inner, line=line)
