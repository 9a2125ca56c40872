"""Tracebacks as Jupyter and Colab show them, line by line in Python's own spelling.

The surprise: the error's name stands over its traceback too, and there it is no second error.
"""

import re

_FRAME = re.compile(
    r"^File (?P<new>\S{1,300}):(?P<line>\d+), in (?:\w+\.)*(?P<name>\w+)\("
    r"|^(?P<old>[~/<]\S{1,300}\.py>?) in (?P<function>\w+)\("
)
_CODE = re.compile(r"^-{1,6}> ?\d+ +(?P<code>\S.*)")
_NEIGHBOUR = re.compile(r"^ {1,8}\d+(?: |$)")
_HEAD = re.compile(r"^[A-Z]\w+ {3,}Traceback \(most recent call last\)$")


def is_heading(text: str) -> bool:
    """Whether a clean line is the heading of such a traceback: `OutOfMemoryError      Traceback (most recent ...)`."""
    return _HEAD.match(text) is not None


def is_neighbour(text: str) -> bool:
    """Whether a clean line is numbered code around the one that ran."""
    return _NEIGHBOUR.match(text) is not None


def frame_in(text: str) -> str | None:
    """Return the frame, or the line of code under one, that a clean line shows; None for any other line.

    >>> frame_in("File ~/a.py:13, in Trainer.train(self, x)"), frame_in("---> 14     loss.backward()")
    ('File "~/a.py", line 13, in train', 'loss.backward()')
    """
    if code := _CODE.match(text):
        return code["code"]
    found = _FRAME.match(text)
    if found is None:
        return None
    where = f"line {found['line']}, " if found["line"] else ""
    return f'File "{found["new"] or found["old"]}", {where}in {found["name"] or found["function"]}'
