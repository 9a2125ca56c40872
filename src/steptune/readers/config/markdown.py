"""What issue trackers wrap around pasted lines: quote marks and inline code.

The surprise: a command between single backticks spans many lines, so its first and last line each carry one.
"""

from collections.abc import Iterable, Iterator

from steptune.readers.config.yaml_text import NumberedLine


def plain(lines: Iterable[NumberedLine]) -> Iterator[NumberedLine]:
    """Yield the lines without a leading ``>`` and without a backtick at either end."""
    for number, text in lines:
        bare = text.lstrip()
        if bare[:2] == "> ":
            text = bare[2:]
        elif bare[:1] == "`" and bare[:3] != "```":
            text = bare[1:]
        if text.endswith("`") and not text.endswith("``"):
            text = text[:-1]
        yield number, text
