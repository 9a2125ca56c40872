"""Reads what programs print and people paste of nested values: Python dicts, JSON, calls, Hydra values.

One tolerant parser: a missing end is closed, a missing start is a mapping whose parents are unknown, and
anything that is not a literal stays as text. It never raises and always moves forward.
"""

from typing import final

from steptune.readers.config.scalars import parse_scalar
from steptune.readers.config.tree import Leaf, Map, Node, Seq

MAX_DEPTH = 40
"""Nesting at which the rest becomes text, in levels; real configurations stay below 12."""

_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_SPACES = " \t\r\n"


@final
class LiteralReader:
    """A cursor over ``text`` whose line breaks count lines from ``first_line`` on."""

    def __init__(self, text: str, lines: list[int]) -> None:
        """``lines`` holds the input line of every line of ``text``."""
        self._text = text
        self._lines = lines
        self._at = 0
        self._row = 0
        self._row_at = 0

    def read_value(self, depth: int = 0, stops: str = ",}])") -> Node:
        """Read one value and stop before the comma or bracket that ends it."""
        self._skip_spaces()
        char = self._peek()
        if char in _CLOSERS and char and depth < MAX_DEPTH:
            return self._read_bracket(char, depth)
        line = self._line()
        text, is_string = self._read_token(stops)
        if self._peek() == "(" and text.replace(".", "").replace("_", "").isalnum() and depth < MAX_DEPTH:
            return self._read_call(text, line, depth)
        return Leaf(value=text if is_string else parse_scalar(text), text=text, line=line)

    def read_open_mapping(self) -> Map:
        """Read a mapping whose opening bracket was cut off; stray closing brackets are passed over."""
        line = self._line()
        items: list[tuple[str, int, Node]] = []
        while self._at < len(self._text):
            self._read_pairs(items, 0)
            self._at += 1  # a closing bracket nobody opened
        return Map(items=tuple(items), line=line)

    def _read_bracket(self, char: str, depth: int) -> Node:
        line = self._line()
        self._at += 1
        if char == "{":
            items: list[tuple[str, int, Node]] = []
            self._read_pairs(items, depth)
            self._close("}")
            return Map(items=tuple(items), line=line)
        values: list[Node] = []
        while self._more():
            values.append(self.read_value(depth + 1))
            self._skip_comma()
        self._close(_CLOSERS[char])
        return Seq(items=tuple(values), line=line)

    def _read_call(self, name: str, line: int, depth: int) -> Node:
        """``np.float64(2.0)`` is its argument; ``GRPOConfig(beta=0.1)`` a mapping."""
        self._at += 1
        items: list[tuple[str, int, Node]] = []
        self._read_pairs(items, depth)
        self._close(")")
        if any(key for key, _, _ in items):
            return Map(items=tuple(item for item in items if item[0]), line=line)
        if len(items) == 1 and isinstance(items[0][2], Leaf):
            return items[0][2]
        return Leaf(value=f"{name}(...)", text=f"{name}(...)", line=line)

    def _read_pairs(self, items: list[tuple[str, int, Node]], depth: int) -> None:
        """Read ``key: value`` or ``key=value`` pairs up to a closing bracket."""
        while self._more():
            line = self._line()
            before = self._at
            self._skip_spaces()
            key, _ = self._read_token(":=,}])")
            self._skip_spaces()
            if self._peek() in (":", "="):
                self._at += 1
                items.append((key.strip(), line, self.read_value(depth + 1)))
            elif key:
                self._at = before
                items.append(("", line, self.read_value(depth + 1)))
            self._skip_comma()
            if self._at == before:
                self._at += 1

    def _more(self) -> bool:
        self._skip_spaces()
        return self._at < len(self._text) and self._text[self._at] not in "}])"

    def _close(self, closer: str) -> None:
        self._skip_spaces()
        if self._peek() == closer:
            self._at += 1

    def _skip_comma(self) -> None:
        self._skip_spaces()
        if self._peek() == ",":
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _skip_spaces(self) -> None:
        """Pass spaces, line ends and comments that start a line or follow a space."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in _SPACES:
                self._at += 1
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            else:
                return

    def _line(self) -> int:
        """Return the input line of the next character that is no space."""
        self._skip_spaces()
        self._row += self._text.count("\n", self._row_at, self._at)
        self._row_at = max(self._row_at, self._at)
        return self._lines[min(self._row, len(self._lines) - 1)]

    def _read_token(self, stops: str) -> tuple[str, bool]:
        """Read a string or a bare run up to one of ``stops``; say whether it was a string."""
        char = self._peek()
        if char and char in "'\"":
            return self._read_string(char), True
        start = self._at
        depth = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if depth == 0 and (char in stops or char == "\n" or (char == "(" and self._at > start)):
                break
            depth += (char in "{[") - (char in "}]")
            self._at += 1
        return self._text[start : self._at].strip(), False

    def _read_string(self, quote: str) -> str:
        """Read up to the closing quote; an unclosed string ends with its line."""
        start = self._at + 1
        at = start
        text = self._text
        while at < len(text) and text[at] != quote and text[at] != "\n":
            at += 2 if text[at] == "\\" else 1
        self._at = min(at + (at < len(text) and text[at] == quote), len(text))
        return text[start : min(at, len(text))].replace("\\" + quote, quote)


def read_literal(text: str, lines: list[int]) -> Node:
    """Read the value at the start of ``text``; ``lines`` holds the input line of each of its lines.

    >>> from steptune.readers.config.tree import flatten
    >>> [(e.key, e.value) for e in flatten(read_literal("{'a': {'b': [1, 'x'], 'c': None}}", [1]))]
    [('a.b', (1, 'x')), ('a.c', None)]
    """
    return LiteralReader(text, lines).read_value()


def read_mapping_fragment(text: str, lines: list[int]) -> Map:
    """Read ``'key': value`` pairs whose enclosing brackets are missing."""
    return LiteralReader(text, lines).read_open_mapping()
