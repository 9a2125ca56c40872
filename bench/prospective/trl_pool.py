"""The parent's end: TRL's worker and the arms it forked, told which steps to run.

Surprise: an arm that waits blocks in `recv` and uses no core; arms of several configurations stay resident.
"""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self, final

from prospective.job import Job, Moves
from prospective.trl_messages import Probe, StepTimes
from steptune.core.errors import JobError, TrialError, explain

PYTHON_VARIABLE = "STEPTUNE_TRL_PYTHON"
"""Environment variable that names the interpreter of an environment with TRL."""

PYTHON = Path(".venv-peers/bin/python")
"""Where `make test-peers` makes it."""

START_S = 120.0
"""Seconds the worker or an arm gets to dial."""

WORKER = Path(__file__).with_name("trl_worker.py")


@final
class TrlArm:
    """One configuration, resident."""

    def __init__(self, line: Connection, start_s: float) -> None:
        self._line, self.start_s = line, start_s

    def run(self, steps: Sequence[int]) -> list[StepTimes]:
        """Run the steps with these forced lengths.

        Raises:
            TrialError: the arm failed.
        """
        self._line.send(("go", list(steps)))
        return [StepTimes.model_validate(step) for step in self._answer()]

    def probe(self, most_rows: int) -> list[Probe]:
        """Time small pieces of its work between two steps; needs one step before.

        Raises:
            TrialError: the arm failed.
        """
        self._line.send(("probe", most_rows))
        probes = [Probe.model_validate(probe) for probe in self._answer()]
        self._answer()
        return probes

    def close(self) -> None:
        """Hang up; it leaves."""
        self._line.close()

    def _answer(self) -> list[object]:
        try:
            said = self._line.recv()
        except EOFError:
            said = "it hung up"
        if isinstance(said, str):
            hint = "see what it printed"
            raise TrialError(explain("a TRL arm failed", got=said, allowed="steps", hint=hint))
        return said


@final
class TrlPool:
    """The worker; `with TrlPool() as pool: arm = pool.start(job, {})`."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name) / "line")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(START_S)
        self._listener.bind(self._address)
        self._listener.listen()
        threads = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
        command = [str(find_python()), "-W", "ignore", str(WORKER), self._address]
        self._process = subprocess.Popen(command, env=threads, stdout=subprocess.DEVNULL)
        self._worker = self._accept("worker")
        self._count = 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._worker.close()  # it leaves then, and so does every arm whose line is closed
        self._process.wait(START_S)
        self._listener.close()
        self._folder.cleanup()

    def start(self, job: Job, moves: Moves) -> TrlArm:
        """Fork an arm and wait until it may run its first step."""
        start_s = time.monotonic()
        self._count += 1
        name = f"arm-{self._count}"
        self._worker.send((name, job.model_dump_json(), job.settings(moves)))
        line = self._accept(name)
        arm = TrlArm(line, 0.0)
        arm._answer()
        return TrlArm(line, time.monotonic() - start_s)

    def _accept(self, name: str) -> Connection:
        try:
            line = Connection(self._listener.accept()[0].detach())
            said, _, _ = line.recv()
        except (TimeoutError, EOFError) as error:
            hint = "see what it printed; a busy machine needs longer"
            allowed = f"an answer within {START_S:.0f} s"
            raise TrialError(
                explain(f"TRL's {name} did not start", got=repr(error), allowed=allowed, hint=hint)
            ) from error
        assert said == name, f"{said} dialled instead of {name}"
        return line


def find_python() -> Path:
    """Return the interpreter of TRL's environment.

    Raises:
        JobError: there is none.
    """
    python = Path(os.environ.get(PYTHON_VARIABLE, PYTHON))
    if not python.is_file():
        raise JobError(
            explain(
                "TRL needs an environment of its own",
                got=f"no interpreter at `{python}`",
                allowed=f"`{PYTHON}`, or the path in {PYTHON_VARIABLE}",
                hint="`make test-peers` makes it",
            )
        )
    return python.absolute()
