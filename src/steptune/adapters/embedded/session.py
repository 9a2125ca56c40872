"""A run of the embedded engine in a process of its own, driven over pipes."""

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, final

from steptune.adapters.embedded.hang import where_it_hangs
from steptune.adapters.embedded.idle import waiting
from steptune.adapters.embedded.oom_kills import has_risen, num_oom_kills
from steptune.core.errors import KilledError, OutOfMemoryError, TrialError
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation
from steptune.engine.compiler import CACHE_VARIABLE

START_TIMEOUT_S = 120.0
"""Seconds until the engine must have loaded: torch takes 2 to 4 here, 20 on a busy machine."""

STALL_FACTOR = 30.0
"""A step is hung when it takes this many times the longest step so far."""

MIN_STALL_S = 60.0
"""Seconds below which no step of a model of `SMALL_PARAMETERS` is called hung."""

SMALL_PARAMETERS = 4e6
"""A model that takes a second or two a step (bench/vs_trl: 4 M parameters, 64 rollouts, two cores). From there on
patience grows with size, as work does: the first step and the first validation of 135 M parameters take minutes, and
nobody knows yet how long a step is."""

EXIT_S = 5.0
"""Seconds a run gets to leave by itself before it is killed by id."""

KILLED = ", killed from outside"
"""What an exit by SIGKILL means for a run that nobody here stopped."""

OUT_OF_MEMORY = "the kernel killed it for want of memory, in an unknown phase"
"""What it means where the kernel counted such a kill since the run began."""

SERVE = "steptune.engine.serve"
"""The module that is a run."""

RUN_MARK = "STEPTUNE_RUN_MARK"
"""Environment variable that marks every process of a session, so that a resumed one can find orphans."""

COMPILED = "compiled"
"""Folder of the cache for what `compile` makes."""


@final
class EngineSession:
    """Implements `core.framework.Session`."""

    def __init__(
        self,
        run_json: str,
        folder: Path,
        environment: Mapping[str, str],
        start_timeout_s: float = START_TIMEOUT_S,
        min_stall_s: float = MIN_STALL_S,
        module: str = SERVE,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        run_file = folder / "run.json"
        run_file.write_text(run_json, encoding="utf-8")
        command = [sys.executable, "-m", module, str(run_file), str(folder)]
        (folder / "command.txt").write_text(" ".join(command) + "\n", encoding="utf-8")
        self.log = (folder / "stderr.txt").open("a", encoding="utf-8")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
        )
        self.folder, self.oom_kills_before = folder, num_oom_kills()
        self.longest_step_s, self.start_timeout_s, self.min_stall_s = 0.0, start_timeout_s, min_stall_s
        self.is_ready = False
        """The engine loads while other runs load too; the first order waits for it."""

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run steps; see `core.framework.Session`."""
        timeout_s = max(self.min_stall_s, STALL_FACTOR * self.longest_step_s) * (num_steps + 1) + rehearse_s
        answer = self._ask({"order": "steps", "num_steps": num_steps, "rehearse_s": rehearse_s}, timeout_s)
        made = [Observation.model_validate(o) for o in answer["observations"]]
        self.longest_step_s = max([self.longest_step_s, *(o.step_time_s for o in made)])
        return made

    def evaluate(self) -> EvalResult:
        """Held-out accuracy at the current weights."""
        return EvalResult.model_validate(self._ask({"order": "evaluate"}, self._patience_s)["result"])

    def lengths(self) -> SampledLengths:
        """Lengths of every rollout so far."""
        return SampledLengths.model_validate(self._ask({"order": "lengths"}, START_TIMEOUT_S)["lengths"])

    def save_model(self, folder: Path) -> str | None:
        """Write the current weights; see `core.framework.SavesModels`."""
        return self._ask({"order": "save", "folder": str(folder.absolute())}, self._patience_s)["refused"]

    def close(self) -> None:
        """Close the order pipe; a run that does not leave is killed by its id."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                _close_quietly(pipe)
        try:
            self.process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    @property
    def _patience_s(self) -> float:
        """Seconds for an order that is no step."""
        return max(START_TIMEOUT_S, self.min_stall_s)

    def _ask(self, order: Mapping[str, object], timeout_s: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        if not self.is_ready:
            self._read(self.start_timeout_s)
            self.is_ready = True
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        return self._read(timeout_s)

    def _read(self, timeout_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while not select.select([self.process.stdout], [], [], 0.5)[0]:
            if has_ended(self.process):
                raise self._died()
            if time.monotonic() > deadline:
                where = where_it_hangs(self.process, self.folder / "stderr.txt")
                self.close()
                raise TrialError(f"no answer for {timeout_s:.0f} s, {where}; the run was stopped; {self._log()}")
        line = self.process.stdout.readline()
        if not line:
            raise self._died()
        answer = json.loads(line)
        if answer["answer"] == "error":
            self.close()
            if answer["kind"] == "out_of_memory":
                raise OutOfMemoryError(answer["text"])
            if answer["kind"] == KilledError.__name__:
                raise self._killed(answer["text"])
            raise TrialError(f"{answer['kind']}: {answer['text']}")
        return answer

    def _died(self) -> TrialError:
        self.close()
        code = self.process.returncode
        if code != -signal.SIGKILL:
            return TrialError(f"the run died with exit code {code}; {self._log()}")
        return self._killed(f"the run died with exit code {code}{KILLED}")

    def _killed(self, what: str) -> KilledError | OutOfMemoryError:
        """Return what to make of the run, or a process of its own, killed by nobody here."""
        if has_risen(self.oom_kills_before, num_oom_kills()):
            return OutOfMemoryError(f"{OUT_OF_MEMORY}; {what}; {self._log()}")
        return KilledError(f"{what}; {self._log()}")

    def _log(self) -> str:
        return f"its log is {self.folder.name}/stderr.txt"


def has_ended(process: subprocess.Popen[str]) -> bool:
    """Return whether the process is gone and has nothing more to say.

    The end of its stdout does not tell: a daemon that it forked may hold the pipe open.
    """
    assert process.stdout is not None
    return process.poll() is not None and not select.select([process.stdout], [], [], 0)[0]


def stall_s_of(num_parameters: float) -> float:
    """Return the seconds below which no step of a model of that size is called hung.

    >>> stall_s_of(1e6), stall_s_of(136e6)
    (60.0, 2040.0)
    """
    return MIN_STALL_S * max(1.0, num_parameters / SMALL_PARAMETERS)


def session_environment(
    base: Mapping[str, str], mark: str, cache_dir: Path, *, is_crowded: bool = False
) -> dict[str, str]:
    """Return the environment of an engine process, ``base`` and what it leaves open.

    What is compiled is kept in ``cache_dir``, and idle threads wait as `idle` says.
    """
    return {CACHE_VARIABLE: str(cache_dir / COMPILED), **base, **waiting(base, is_crowded=is_crowded), RUN_MARK: mark}


def _close_quietly(pipe: IO[str]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return
