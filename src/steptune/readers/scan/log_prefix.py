"""What torchrun and vLLM put before every line of a message, its traceback included.

The surprise: the severity stands only there. A line whose `ERROR` was taken away still is an error, but a frame of the
traceback that was logged with it is no error of its own.
"""

import re

_RANK = r"\[rank\d+\]: ?|\[default\d+\]:"
_PROCESS = r"\((?:[\w.:]+(?: [\w=]+)* )?pid=\d+(?:, ip=[\d.]+)?\) ?"
_SEVERITY = r"(?P<severity>ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]\n]{1,60}:\d+\]|[\w./-]{1,60}:\d+\]) ?"
_PREFIX = re.compile(rf"^(?:{_RANK}|{_PROCESS})*(?:{_SEVERITY})?")


def split_prefix(text: str) -> tuple[str, bool]:
    """Return a clean line without these prefixes, and whether one of them says that it is an error.

    >>> split_prefix('(EngineCore_0 pid=7) ERROR 10-25 13:08:43 [core.py:708]   File "a.py", line 3, in run')
    ('  File "a.py", line 3, in run', True)
    >>> split_prefix("[rank0]: ValueError: no")
    ('ValueError: no', False)
    """
    if text[:1] not in ("[", "(", "E", "C"):
        return text, False
    found = _PREFIX.match(text)
    return (text[found.end() :], found["severity"] is not None) if found else (text, False)
