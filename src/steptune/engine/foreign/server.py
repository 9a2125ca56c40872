"""A foreign server as a process: started, waited for, mourned with its own words, and stopped without a rest.

It runs under `guard`, in a process group of its own: whoever starts it may be killed at any time, and nothing stays.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

from steptune.core.errors import TrialError, explain
from steptune.engine.process import peak_memory_bytes

LOOPBACK = "127.0.0.1"

GUARD = Path(__file__).with_name("guard.py")
"""Run by its path, so that no package has to be importable there."""

POLL_S = 0.1
"""Seconds between two looks at a server that starts or ends."""

EXIT_S = 10.0
"""Seconds a server gets to end by itself before its group is killed; vLLM takes about one."""

LOG_BYTES = 200_000
"""How much of a log's end is searched for the cause of a death."""

CAUSE_LINES = 3
"""Lines of a log that an error shows."""

_ERROR = re.compile(r"\b(?:\w+\.)*\w*(?:Error|Exception)(?:\(|: ).*")
_NO_ERROR = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")


@final
class ServerProcess:
    """One server. `close` it; its log outlives it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path, port: int) -> None:
        """Start ``command``, which shall listen on ``port`` of the loopback address; its log is in ``folder``.

        Raises:
            OSError: the log cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.log = port, folder / "server.log"
        self._ready_at = 0
        """Bytes of the log when it answered first: what it complained of before was not fatal."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(GUARD), *command],
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def group(self) -> int:
        """Process group of the server and everything it started."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether the server has not ended."""
        return self._process.poll() is None

    def has_ended(self, within_s: float) -> bool:
        """Return whether the server has ended, or does within ``within_s``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return not self.is_running()

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> float:
        """Wait until it answers; return the seconds that took. A server that dies or dawdles is stopped.

        Raises:
            TrialError: it died, or ``timeout_s`` passed; with the cause out of its log.
        """
        start_s = time.monotonic()
        while not is_ready():
            waited_s = time.monotonic() - start_s
            if not self.is_running():
                self.close()
                raise self.died("while it was starting")
            if waited_s > timeout_s:
                self.close()
                raise TrialError(
                    explain(
                        "the foreign server does not answer",
                        got=f"nothing for {waited_s:.0f} s; its log says: {cause(self.log)}",
                        allowed=f"health within {timeout_s:.0f} s",
                        hint=f"read `{self.log}`; a busy machine needs a longer `start_timeout_s`",
                    )
                )
            time.sleep(POLL_S)
        self._ready_at = self.log.stat().st_size
        return time.monotonic() - start_s

    def died(self, when: str) -> TrialError:
        """Return the error of a server that ended unasked."""
        return TrialError(
            explain(
                f"the foreign server died {when}",
                got=f"its log says: {cause(self.log, self._ready_at)}",
                allowed="a server that lives as long as the run",
                hint=f"read `{self.log}`; killed without a word it was perhaps the kernel, for want of memory",
            )
        )

    def cpu_s(self) -> float:
        """Return the processor seconds of the group's living processes (Linux; 0 elsewhere)."""
        return sum(ticks for _, ticks in self._members()) / os.sysconf("SC_CLK_TCK")

    def peak_memory_bytes(self) -> int | None:
        """Return the sum of the peaks of the group's living processes, or None where the kernel does not say."""
        peaks = [peak_memory_bytes(pid) for pid, _ in self._members()]
        return sum(peak for peak in peaks if peak is not None) or None

    def _members(self) -> Iterator[tuple[int, int]]:
        """Yield id and used processor ticks of every process of the group."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if int(fields[2]) == self.group:
                    yield int(stat.parent.name), int(fields[11]) + int(fields[12])

    def close(self) -> None:
        """Ask the group to end, wait, then kill what is left of it. Twice does nothing."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGTERM)
            if not self.has_ended(EXIT_S):
                os.killpg(self.group, signal.SIGKILL)  # the guard may be stopped like the others
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def cause(log: Path, start: int = 0) -> str:
    """Return what a log says from byte ``start`` on about an end: its first different errors, else its last lines."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, log.stat().st_size - LOG_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return "nothing"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matches = [_ERROR.search(line) for line in lines if not _NO_ERROR.search(line)]
    errors = list(dict.fromkeys(found.group().strip() for found in matches if found is not None))
    return " | ".join(errors[:CAUSE_LINES] or lines[-CAUSE_LINES:]) or "nothing"
