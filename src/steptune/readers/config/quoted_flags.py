"""Flags inside Python strings: ``"--rollout-batch-size", "16",`` and ``"--rollout-batch-size 16 "``.

Launchers written in Python hold their arguments so, as lists or as strings that stand one under the other. The
surprise: what is not a string there is a name of the program, so its flag is set to something unknown.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from steptune.core.paste import Setting
from steptune.readers.config.arguments import read_arguments
from steptune.readers.config.shell_words import Word
from steptune.readers.config.yaml_text import NumberedLine

_PART = re.compile(
    r"(?P<format>[fF]?)(?P<quote>['\"])(?P<text>(?:(?!(?P=quote)).)*)(?P=quote)|(?P<bare>[\w.]+)(?=\s*[,)\]]|\s*$)"
)
_COMMENT = re.compile(r"(?:^|\s)#[^'\"]*$")
_STARTS_FLAG = re.compile(r"\s*--?[A-Za-z]")
_HOLE = re.compile(r"\{[^{}]*\}")


def read_quoted_flags(lines: Sequence[NumberedLine], path: str) -> Iterator[Setting]:
    """Yield the settings of pasted lines, each of which holds strings with flags or their values."""
    words: list[Word] = []
    for number, text in lines:
        for part in _PART.finditer(_COMMENT.sub("", text)):
            if part["bare"] is not None:
                words.append(Word(text=f"${{{part['bare']}}}", line=number, is_resolved=False))
            else:
                words += _words(part["text"], number, is_format=bool(part["format"]))
    return read_arguments(_from_first_flag(words), path)


def read_flag_node(node: ast.expr, path: str, line_of: Callable[[ast.expr], int]) -> Iterator[Setting]:
    """Yield the settings of a list or a string of a parsed program, nothing where it holds no flag."""
    parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    if not any(_STARTS_FLAG.match(_text(part)[0]) for part in parts):
        return iter(())
    words = [word for part in parts for word in _words_of(part, line_of(part), is_alone=len(parts) == 1)]
    return read_arguments(_from_first_flag(words), path)


def _words_of(part: ast.expr, line: int, *, is_alone: bool) -> list[Word]:
    text, is_format = _text(part)
    if text and (is_alone or _STARTS_FLAG.match(text) or is_format):
        return _words(text, line, is_format=is_format)
    if isinstance(part, ast.Constant):
        return [Word(text=str(part.value), line=line, is_quoted=True)]
    return [Word(text=f"${{{ast.unparse(part)}}}", line=line, is_resolved=False)]


def _text(part: ast.expr) -> tuple[str, bool]:
    """Return the text of a string and whether it has holes, as ``${...}``; nothing for any other expression."""
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part.value, False
    if isinstance(part, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in part.values), True
    return "", False


def _words(text: str, line: int, *, is_format: bool) -> list[Word]:
    """Split a string that starts with a flag at its spaces; any other string is one value."""
    if not _STARTS_FLAG.match(text):
        return [_word(text.strip(), line, is_format=is_format, is_quoted=True)] if text.strip() else []
    return [_word(word, line, is_format=is_format) for word in text.split()]


def _word(text: str, line: int, *, is_format: bool, is_quoted: bool = False) -> Word:
    has_hole = is_format and _HOLE.search(text) is not None
    said = _HOLE.sub("${...}", text) if has_hole else text
    return Word(text=said, line=line, is_resolved=not has_hole, is_quoted=is_quoted and not _STARTS_FLAG.match(text))


def _from_first_flag(words: Sequence[Word]) -> Sequence[Word]:
    """Leave out what stands before the flags: the program and its script."""
    first = next((at for at, word in enumerate(words) if _STARTS_FLAG.match(word.text)), len(words))
    return words[first:]
