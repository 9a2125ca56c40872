"""Words of a shell script: quotes, variables, arrays, continuations, each word with the line it stands on.

Only what launch scripts need, nothing is ever executed: command substitutions stay unresolved. The surprise: a
comment after a continued line ends the command, so the arguments below it never reach the program.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import final

from steptune.readers.config.shell_variables import Scope, expand

_OPERATORS = ";|&\n"
_ASSIGN = re.compile(r"[A-Za-z_]\w*\+?=")
_NUMBERED_STREAM = re.compile(r"\d+(?=>)")
"""What is redirected in `2>&1`, which is no value of the flag before it."""

_ASSIGN_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(")


MAX_HERE_CHARS = 50_000
"""Longest here-document that is passed over."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One argument after expansion: ``Word(text="data.train_batch_size=64", line=12)``."""

    text: str
    line: int
    is_resolved: bool = True
    """False when a variable or a command inside it is unknown."""
    is_quoted: bool = False
    """Whether any part was in quotes: a quoted comma or bracket is not split again."""
    path: str = ""
    """The file it stands in, when another one than the script's."""
    array: "tuple[Word, ...] | None" = None
    """The elements, for ``NAME=( ... )``; `text` is then ``NAME=`` or ``NAME+=``."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One simple command; `cut_by` is the line of a comment that ended it after a continuation."""

    words: tuple[Word, ...]
    cut_by: int | None = None
    ended_by: str = ""
    """``&&``, ``||``, ``;;``, ``)``, or one of ``;|&`` and the line end."""


@final
@dataclass(kw_only=True, slots=True)
class ShellReader:
    """A cursor over a script; `scope` holds the variables and is filled by whoever runs the commands."""

    text: str
    numbers: list[int]
    scope: Scope
    path: str = ""
    """Given to every word when this is a sourced file."""
    at: int = 0
    starts: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        """Note where the lines begin."""
        self.starts = [0, *(m.end() for m in re.finditer("\n", self.text))]

    def next_command(self) -> Command | None:
        """Return the next command, or None at the end. Variables are expanded as they stand now."""
        words: list[Word] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if self._skip_continuation():
                continue
            if char in " \t\r":
                self.at += 1
            elif char == "#":
                line = self._line()
                was_inside = bool(words) and self._follows_continuation()
                self._skip_line()
                if was_inside:
                    return Command(words=tuple(words), cut_by=line, ended_by="\n")
            elif char in _OPERATORS or char == ")":
                operator = self._read_operator()
                if words or operator in (";;", ")"):
                    return Command(words=tuple(words), ended_by=operator)
            elif char in "<>" or _NUMBERED_STREAM.match(self.text, self.at):
                self.at = self.text.index(">" if char not in "<>" else char, self.at)
                self._skip_redirection()
            else:
                self._read_into(words)
        return Command(words=tuple(words)) if words else None

    def _read_operator(self) -> str:
        two = self.text[self.at : self.at + 2]
        operator = two if two in ("&&", "||", ";;") else two[0]
        self.at += len(operator)
        return operator

    def _read_into(self, words: list[Word]) -> None:
        if found := _ASSIGN_ARRAY.match(self.text, self.at):
            words.append(self._read_array(found))
        else:
            before = self.at
            words.extend(self._read_word())
            self.at = max(self.at, before + 1)

    def _read_array(self, found: re.Match[str]) -> Word:
        line = self._line()
        self.at = found.end()
        items: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            char = self.text[self.at]
            if char == "#":
                self._skip_line()
            elif (char in " \t\r\n\\" and (char != "\\" or self._skip_continuation(peek=True))) or char in ";|&<>":
                self.at += 1
            else:
                self._read_into(items)
        self.at += 1
        return Word(text=found[0][:-1], line=line, path=self.path, array=tuple(items))

    def _read_word(self) -> list[Word]:
        """Read up to an unquoted space; an unquoted variable of several words or an array gives several."""
        line = self._line()
        # a variable's value stays one word in an assignment, and is split anywhere else
        is_assignment = _ASSIGN.match(self.text, self.at) is not None
        pieces: list[str] = []
        is_resolved = True
        is_quoted = False
        while self.at < len(self.text) and not self._ends_word():
            char = self.text[self.at]
            if char == "'":
                pieces.append(self._read_single())
                is_quoted = True
            elif char in '"$`':
                part, known, many = self._read_expanding(char)
                if many is not None and not pieces:
                    return list(many)
                pieces.append(part)
                is_resolved &= known
                is_quoted |= char == '"'
            else:
                self.at += char == "\\"
                pieces.append(self.text[self.at : self.at + 1])
                self.at += 1
        text = "".join(pieces)
        if not is_assignment and not is_quoted and is_resolved and (" " in text or "\n" in text):
            return [Word(text=part, line=line, path=self.path) for part in text.replace("\\\n", " ").split()]
        if not text and not is_quoted:
            return []
        return [Word(text=text, line=line, is_resolved=is_resolved, is_quoted=is_quoted, path=self.path)]

    def _ends_word(self) -> bool:
        char = self.text[self.at]
        return char in " \t\r\n;|&<>)" or (char == "\\" and self._skip_continuation(peek=True))

    def _read_single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:  # an apostrophe in a damaged line: nothing was quoted
            self.at += 1
            return "'"
        part = self.text[self.at + 1 : end]
        self.at = end + 1
        return part

    def _read_expanding(self, char: str) -> tuple[str, bool, tuple[Word, ...] | None]:
        """Read a double-quoted part or one expansion; the third value is an array's elements."""
        if char != '"':
            part, known, self.at, array = expand(self.text, self.at, self.scope)
            return part, known, self._as_words(array)
        self.at += 1
        pieces: list[str] = []
        is_resolved = True
        while self.at < len(self.text) and self.text[self.at] != '"':
            inner = self.text[self.at]
            if inner in "$`":
                part, known, self.at, array = expand(self.text, self.at, self.scope)
                if array is not None and not pieces and self.text[self.at : self.at + 1] == '"':
                    self.at += 1
                    return "", True, self._as_words(array)
                pieces.append(part)
                is_resolved &= known
            elif inner == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                pieces.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            else:
                pieces.append(inner)
                self.at += 1
        self.at += 1
        return "".join(pieces), is_resolved, None

    def _as_words(self, array: object) -> tuple[Word, ...] | None:
        return array if isinstance(array, tuple) else None

    def _skip_continuation(self, *, peek: bool = False) -> bool:
        """Pass a backslash that ends its line (spaces after it are forgiven); say whether there was one."""
        if self.text[self.at] != "\\":
            return False
        end = self.at + 1
        while end < len(self.text) and self.text[end] in " \t\r":
            end += 1
        if end < len(self.text) and self.text[end] != "\n":
            return False
        self.at = self.at if peek else end + 1
        return True

    def _follows_continuation(self) -> bool:
        row_start = self.starts[self._row()]
        above = self.text[:row_start].rstrip("\n \t\r") if not self.text[row_start : self.at].strip() else ""
        return above.endswith("\\")

    def _skip_redirection(self) -> None:
        """Pass ``> file``, ``2>&1`` and here-documents (whose body is data, not commands)."""
        found = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?|[<>]+&?\s*(?:\([^)\n]*\)|[^\s;|&<>]*)").match(self.text, self.at)
        self.at = max(found.end() if found else 0, self.at + 1)
        if found and found[1]:
            self.at = self._after_here_document(found[1])

    def _after_here_document(self, word: str) -> int:
        """Return the position after the line that holds only ``word``, or the present one when there is none near."""
        limit = self.at + MAX_HERE_CHARS
        found = self.text.find(f"\n{word}", self.at, limit)
        while found >= 0:
            end = found + 1 + len(word)
            if self.text[end : end + 1] in ("", "\n", "\r"):
                return end
            found = self.text.find(f"\n{word}", end, limit)
        return self.at

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _row(self) -> int:
        return bisect_right(self.starts, self.at) - 1

    def _line(self) -> int:
        return self.numbers[min(self._row(), len(self.numbers) - 1)]
