"""A process that carries out offline orders one after the other, so that torch is loaded once and not for each.

It starts with the first order and ends with its owner. The surprise: an order that takes it down takes nothing else
with it, and the next order starts another one.
"""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, final

from steptune.adapters.embedded.session import EXIT_S, has_ended, session_environment
from steptune.engine.orders import OfflineOrder


@final
class Helper:
    """``Helper(mark="/runs/x", log=Path("/runs/x/helper.txt"), cache_dir=cache)``."""

    def __init__(self, mark: str, log: Path, cache_dir: Path) -> None:
        self.mark, self.log, self.cache_dir = mark, log, cache_dir
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_up(self) -> bool:
        """Whether the next order needs no start."""
        return self._process is not None and self._process.poll() is None

    def carry_out(self, order: OfflineOrder, timeout_s: float) -> tuple[int, str]:
        """Carry out one order; return its exit code, as a process of its own would have had, and its last words.

        Raises:
            TimeoutExpired: no end in ``timeout_s``; the process is stopped.
        """
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(order.model_dump_json() + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        deadline_s = time.monotonic() + timeout_s
        while not select.select([process.stdout], [], [], 0.5)[0]:
            if has_ended(process):
                return self._died()
            if time.monotonic() > deadline_s:
                process.kill()
                self.close()
                raise subprocess.TimeoutExpired(order.order, timeout_s)
        line = process.stdout.readline()
        if not line:
            return self._died()
        answer = json.loads(line)
        return answer["exit_code"], answer["said"]

    def close(self) -> None:
        """End the process; one that does not leave is killed by its id."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            _close_quietly(pipe)
        try:
            process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self.is_up:
            return self._process
        self.close()
        with self.log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "steptune.engine.offline", "--serve", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=session_environment(os.environ, self.mark, self.cache_dir),
            )
        return self._process

    def _died(self) -> tuple[int, str]:
        assert self._process is not None
        process = self._process
        self.close()
        return process.returncode, self.log.read_text(encoding="utf-8")


def _close_quietly(pipe: IO[str]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return
