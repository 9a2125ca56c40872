"""Tests of a shell condition, and the logic of answers that may be unknown (None)."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from steptune.readers.config.shell_words import Word

_COUNT: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}
_WHOLE = re.compile(r"-?\d{1,18}")
"""A whole number of a size that a shell can hold."""

_IGNORED = frozenset({"[", "[[", "]", "]]", "{", "}"})


def both(a: bool | None, b: bool | None) -> bool | None:
    """Return ``a and b`` where None is unknown."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def either(a: bool | None, b: bool | None) -> bool | None:
    """Return ``a or b`` where None is unknown."""
    return negate(both(negate(a), negate(b)))


def negate(a: bool | None) -> bool | None:
    """Return ``not a`` where None is unknown."""
    return None if a is None else not a


def holds(words: Sequence[Word]) -> bool | None:
    """Return whether ``[ A = B ]`` and its like hold; None when a value is unknown or it is no such test."""
    if words and words[0].text == "!" and not words[0].is_quoted:
        return negate(holds(words[1:]))
    inner = [word for word in words if word.is_quoted or word.text not in _IGNORED]
    is_test = any(word.text in ("[", "[[") for word in words[:2])
    if not is_test or any(not word.is_resolved for word in inner):
        return None
    texts = [word.text for word in inner]
    if len(texts) == 2 and texts[0] in ("-z", "-n"):
        return (texts[1] == "") is (texts[0] == "-z")
    return _compare(*texts) if len(texts) == 3 else None


def _compare(left: str, sign: str, right: str) -> bool | None:
    if sign in ("=", "==", "!="):
        return fnmatchcase(left, right) is (sign != "!=")
    if sign in _COUNT and _WHOLE.fullmatch(left) and _WHOLE.fullmatch(right):
        return _COUNT[sign](int(left), int(right))
    return None
