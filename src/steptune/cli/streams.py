"""Standard output and standard error: what can happen to them, and what then.

A reader that went away (`head`) is no error: the work is done and the exit code is the answer's. A full disk is one.
Surprise: talk on standard error never ends a command, or a closed terminal would cost a session of nine minutes.
"""

import errno
import os
import sys
from pathlib import Path
from typing import TextIO

from steptune.core.errors import StoreError, explain


def print_plain(text: str) -> None:
    """Print ``text``; characters the terminal cannot show become `?`, a reader that went away is no error.

    Raises:
        StoreError: standard output is closed or cannot be written.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:
        raise _unwritten("a closed stream")
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, errors="replace").decode(encoding))
        stream.flush()
    except OSError as error:
        _to_nowhere(stream)
        if error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
            raise _unwritten(error.strerror) from error


def print_line(text: str) -> None:
    """Print ``text`` as a line, as `print_plain` does."""
    print_plain(f"{text}\n")


def say(text: str) -> None:
    """Say ``text`` on standard error, without secrets; a stream that is gone is passed over."""
    from steptune.report.redact import redact_text

    stream: TextIO | None = sys.stderr
    if stream is None:  # print would write on standard output instead
        return
    try:
        print(redact_text(_from_home(text)), file=stream, flush=True)
    except OSError:
        _to_nowhere(stream)


def _from_home(text: str) -> str:
    """The user's own home folder as `~`: no name is shown, and a path can still be copied into a shell."""
    home = str(Path.home())
    return text.replace(f"{home}/", "~/") if home.count("/") > 1 else text


def _unwritten(got: str | None) -> StoreError:
    hint = "free space on its disk, or send it to another file"
    return StoreError(
        explain("the output cannot be written", got=got, allowed="standard output that takes it", hint=hint)
    )


def _to_nowhere(stream: TextIO) -> None:
    """The interpreter flushes once more when it ends, which would fail again: give it somewhere to."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
