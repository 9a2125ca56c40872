"""Tests of a shell `if`, as far as known values decide them."""

from collections.abc import Callable, Sequence

from steptune.readers.config.shell_words import Word

_COMPARE: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_COUNT: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}


def holds(words: Sequence[Word]) -> bool | None:
    """Return whether ``[ A = B ]`` and its like hold; None when a value is unknown or the test is another one."""
    inner = [word for word in words if word.text not in ("[", "[[", "]", "]]")]
    if len(inner) != len(words) - 2 or any(not word.is_resolved for word in inner):
        return None
    texts = [word.text for word in inner]
    if len(texts) == 2 and texts[0] in ("-z", "-n"):
        return (texts[1] == "") is (texts[0] == "-z")
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in _COMPARE:
        # a pattern on the right is matched, not compared
        return None if set(right) & set("*?[") else _COMPARE[sign](left, right)
    if sign in _COUNT and left.lstrip("-").isdigit() and right.lstrip("-").isdigit():
        return _COUNT[sign](int(left), int(right))
    return None
