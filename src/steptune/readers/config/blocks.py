"""Cuts a paste into blocks of one language: shell, YAML, TOML or Python assignments, printed trees.

The surprise: lines may be missing between two that are here (a log sends only those that look like
configuration), so a block ends by what a line says, and by a gap only where nothing is open.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, final

from steptune.readers.config.line_kinds import CONFIG_LINE
from steptune.readers.config.yaml_text import NumberedLine

Language = Literal["shell", "yaml", "section", "spaced", "tree", "dots", "overrides", "quoted_flags"]

_LANGUAGE: dict[str, Language] = {
    "flag": "shell", "control": "shell", "export": "shell", "command": "shell", "array": "shell", "assign": "shell",
    "environ": "spaced",
    "kwarg": "spaced", "spaced": "spaced", "section": "section", "call": "tree", "tree": "tree",
    "named_tree": "tree",
    "item": "yaml", "item_pair": "yaml", "yaml": "yaml", "dots": "dots", "overrides": "overrides",
    "quoted_flag": "quoted_flags",
}  # fmt: skip

_OPENS_QUOTE = re.compile(r"[=\s](['\"])\s*[{\[]?\s*$")

_QUOTED_KEY = re.compile(r"""\s+(['"])[\w.-]+\1\s*:\s*$""")
"""A key in quotes with nothing behind it, inside YAML: W&B numbers the fields of its own section so."""

_VALUE_LINE = re.compile(r"\s+(?:f?(['\"])[^'\"]*\1|[\w.]+),?\s*(?:#.*)?$")
"""A value on a line of its own, under its flag."""

MAX_QUOTED_LINES = 400
"""Lines of a shell block up to which a quote may stay open; after that it was an apostrophe."""

MAX_TREE_LINES = 20_000
"""Lines a printed tree may have before it counts as broken; verl's dump has about 900."""

MAX_GAP_LINES = 3
"""Lines that may be missing inside a block: comments, blank lines."""


@final
@dataclass(kw_only=True, slots=True)
class Block:
    """Consecutive lines of one language."""

    language: Language
    lines: list[NumberedLine] = field(default_factory=list[NumberedLine])
    depth: int = 0
    """Brackets open at its end (trees and shell arrays)."""
    is_continued: bool = False
    """Whether its last line ends in a backslash or inside quotes."""
    quote: str = ""
    """The quote that is open: a JSON argument may span lines."""

    def add(self, number: int, text: str, depth: int) -> None:
        """Append a line that changes the bracket depth by ``depth``."""
        self.lines.append((number, text))
        self.depth = max(self.depth + depth, 0)
        if self.language == "overrides":  # a wrapped string hides brackets from counting
            self.depth = 0 if text.rstrip().endswith("]") else 1
        if self.language == "shell":
            self.quote = self._open_quote(text)
            self.is_continued = bool(self.quote) or text.rstrip().endswith("\\")

    def _open_quote(self, text: str) -> str:
        if self.quote:
            return "" if self.quote in text or len(self.lines) > MAX_QUOTED_LINES else self.quote
        found = _OPENS_QUOTE.search(text)
        return found[1] if found and text.count(found[1]) % 2 else ""


def cut_blocks(lines: Iterable[NumberedLine]) -> Iterator[Block]:
    """Yield the blocks in order; lines that look like nothing are left out and end a block that is complete.

    A blank line ends YAML only before a line that is not indented: sections inside a section stand apart too.
    """
    block: Block | None = None
    is_paused = False
    for number, text in lines:
        if block is not None and block.language == "yaml" and not text.strip():
            is_paused = True
            continue
        found = CONFIG_LINE.match(text)
        kind = found.lastgroup if found else None
        is_new, is_paused = is_paused and kind != "comment" and text[:1] not in " \t", is_paused and kind == "comment"
        if block is not None and not is_new and _belongs(block, kind, number, text):
            if kind is not None or block.is_continued or block.language == "overrides":
                block.add(number, text, bracket_depth(text))
            continue
        if kind == "comment" and block is not None:
            block.lines.append((number, text))
            continue
        if block is not None:
            yield block
            block = None
        language = _LANGUAGE.get(kind or "")
        if language is not None:
            block = Block(language=language)
            block.add(number, text, bracket_depth(text))
    if block is not None:
        yield block


def _belongs(block: Block, kind: str | None, number: int, text: str) -> bool:
    """Whether a line of this kind goes on with ``block``."""
    is_near = number - block.lines[-1][0] <= MAX_GAP_LINES
    if block.language in ("tree", "quoted_flags", "overrides"):
        return _is_inside(block, kind, number, text)
    if block.language == "shell":
        if (block.is_continued and number - block.lines[-1][0] == 1) or (block.depth > 0 and kind is not None):
            return kind != "fence"
        if kind == "yaml":
            return False
    if block.language == "yaml" and kind == "tree" and _QUOTED_KEY.match(text):
        return is_near
    if kind in (None, "fence", "comment", "scalar"):
        return False
    if kind == "close":
        return block.language != "dots"
    language = _LANGUAGE[kind]
    if block.language == "section":
        return language in ("section", "spaced", "tree", "shell") and is_near
    if block.language == "yaml":
        return language == "yaml" and (is_near or text[:1] in " -")
    return language == block.language and is_near


def _is_inside(block: Block, kind: str | None, number: int, text: str) -> bool:
    """Whether a line stands inside a block that knows its own end, of whatever kind the line may look."""
    distance = number - block.lines[-1][0]
    if block.language == "tree":
        is_short = len(block.lines) < MAX_TREE_LINES
        return block.depth > 0 and is_short and (kind is not None or distance <= MAX_GAP_LINES)
    if block.language == "quoted_flags":
        return kind == "quoted_flag" or (distance <= MAX_GAP_LINES and _VALUE_LINE.match(text) is not None)
    # wrapped anywhere, so a line of it may look like anything
    return kind == "overrides" or (block.depth > 0 and distance == 1)


def bracket_depth(text: str) -> int:
    """Return how many brackets ``text`` leaves open (below zero: closes), strings and comments left out."""
    depth = 0
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[at - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (at == 0 or text[at - 1] in " \t"):
            break
        else:
            depth += (char in "{[(") - (char in "}])")
    return depth
