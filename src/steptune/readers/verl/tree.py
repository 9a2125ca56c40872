"""EasyR1, a fork of verl, prints a step as YAML: a line `Step 3`, then the metrics as a tree, sorted by name.

Read in EasyR1 51636b2, verl/utils/logger/logger.py and verl/utils/py_functional.py: `yaml.dump(..., indent=2)` of
the keys split at their slashes, numbers rounded to three decimals.
"""

import re
from dataclasses import dataclass, field
from typing import final

from steptune.readers.lines import Line
from steptune.readers.step import Dropped, Reading
from steptune.readers.values import parse_number

_HEAD = re.compile(r"^Step (\d{1,9})\s*$")
_NODE = re.compile(r"^(?P<indent> *)(?P<key>[\w@.-]{1,100}):(?: (?P<value>\S{1,60}))?\s*$")

MARK = re.compile(r"^\s*timing_s:\s*$")
"""A node that no other framework prints."""


def step_head(line: Line) -> int | None:
    """Return the number of the step whose tree follows, or None."""
    head = _HEAD.match(line.text)
    return int(head[1]) if head else None


@final
@dataclass(kw_only=True, slots=True)
class TreeLines:
    """The tree in progress: feed it line by line until one is no part of it."""

    last_line: int
    _path: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Indent and name of the nodes the last line is inside of."""

    def goes_on(self, line: Line) -> bool:
        """Whether ``line`` is the next line of the tree; lines that were skipped end it."""
        return line.number == self.last_line + 1 and _NODE.match(line.text) is not None

    def take(self, line: Line) -> Reading | Dropped | None:
        """Return the metric of a line of the tree; None for an inner node."""
        node = _NODE.match(line.text)
        assert node is not None, "goes_on was asked before"
        self.last_line = line.number
        indent, text = len(node["indent"]), node["value"]
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        self._path.append((indent, node["key"]))
        if text is None:
            return None
        key, value = "/".join(name for _, name in self._path), parse_number(text)
        if line.may_be_cut:
            return Dropped(key=key, text=text, line=line.number, why="may have lost digits: the log ends here")
        return None if value is None else Reading(key=key, value=value, text=text, line=line.number)
