"""The way out of every answer: secrets and private paths removed, then text, JSON or a page."""

import re
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from steptune.cli.input_files import PIPE_NAME, PREFIX, STDIN_NAME
from steptune.cli.streams import print_plain
from steptune.core.errors import StoreError, explain
from steptune.report.paint import paint, wants_colour
from steptune.report.redact import redact
from steptune.report.strings import map_strings

RecordT = TypeVar("RecordT", bound=BaseModel)

EXIT_FINE, EXIT_UNREAD, EXIT_FOUND = 0, 1, 3
"""Exit codes of an answer: nothing wrong, nothing recognised, or something a script should stop at."""


def presentable(record: RecordT) -> RecordT:
    """Return ``record`` without secrets, copies of standard input and pipes named as such."""
    ours = re.compile(re.escape(tempfile.gettempdir()) + rf"/{PREFIX}[^/]+/(?={STDIN_NAME}|{PIPE_NAME})")
    return map_strings(redact(record), lambda text: ours.sub("", text))


def print_text(text: str) -> None:
    """Print an answer, in colour on a terminal only."""
    print_plain(paint(text) if sys.stdout is not None and wants_colour(sys.stdout) else text)


def write_page(path: Path, page: str) -> None:
    """Write an HTML page.

    Raises:
        StoreError: the file cannot be written.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        allowed = "a file that can be written"
        sentence = explain(f"`{path}` cannot be written", got=error.strerror, allowed=allowed, hint="check `--html`")
        raise StoreError(sentence) from error
