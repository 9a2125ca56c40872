"""A process that works for the trainer: started, heard, mourned and stopped by its id.

It dies with its parent. What it prints goes to a file of its own, so that when it dies without an answer (a signal,
a crash in a library) its last words can be told.
"""

import faulthandler
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any, Generic, Protocol, TypeVar, final

import torch

from steptune.core.errors import TrialError, explain
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.pipes import send_failure, send_plain, unread_failure
from steptune.engine.process import die_with_parent
from steptune.engine.quota.limit import limited
from steptune.engine.quota.split import split_of

EXIT_S = 5.0
"""Seconds a worker gets to leave by itself before it is killed by id."""

LAST_WORDS = 3
"""Lines of its log that an error shows."""


class ProcessSpec(Protocol):
    """What starting, hearing and mourning a process takes; the rest of its spec is its own business."""

    @property
    def title(self) -> str:
        """What errors call it."""
        ...

    @property
    def log(self) -> Path:
        """Where it writes what it does and what libraries print."""
        ...

    @property
    def parent_pid(self) -> int:
        """Process whose death ends it."""
        ...

    @property
    def threads(self) -> int:
        """Threads of torch."""
        ...

    @property
    def cores(self) -> float | None:
        """CPU quota; None without one."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSpec:
    """Everything a rollout worker needs; pickled once at its start."""

    job: JobSpec
    knobs: EngineKnobs
    seed: int
    forced: SampledLengths | None
    folder: Path
    parent_pid: int

    @property
    def title(self) -> str:
        """See `ProcessSpec`."""
        return "rollout worker"

    @property
    def log(self) -> Path:
        """See `ProcessSpec`."""
        return self.folder / "rollout.stderr.txt"

    @property
    def threads(self) -> int:
        """See `ProcessSpec`."""
        return self.knobs.rollout_threads

    @property
    def cores(self) -> float | None:
        """See `ProcessSpec`."""
        split = split_of(self.job.devices.num_cores, self.knobs)
        return None if split is None else split.rollout


Answer = TypeVar("Answer")
"""What a worker sends."""

Spec = TypeVar("Spec", bound=ProcessSpec)
"""What the process is started with."""

Work = Callable[[Spec, Connection, Any], None]
"""The worker's main loop: (its spec, its end of the wire, what it shares with the trainer)."""


@final
class WorkerProcess(Generic[Answer]):
    """The trainer's end of the wire."""

    def __init__(self, spec: Spec, work: Work[Spec], shared: object) -> None:
        self.spec: ProcessSpec = spec
        self.doing = ""
        """What it was last asked to do, for an error to say."""
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(spec, far_end, work, shared), daemon=True)
        self.process.start()
        far_end.close()

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            TrialError: the worker died.
        """
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def send_plain(self, message: object, patience_s: float) -> None:
        """Send a message whose tensors go by value. A large one waits for the worker to read it.

        Raises:
            TrialError: the worker died, or has not read it for ``patience_s`` and was killed.
        """
        watchdog = Timer(patience_s, self.process.kill)
        watchdog.start()
        try:
            send_plain(self.pipe, message)
        except (BrokenPipeError, ConnectionResetError):
            raise (self._hangs(patience_s) if watchdog.finished.is_set() else self._ended()) from None
        finally:
            watchdog.cancel()

    def has_answer(self) -> bool:
        """Return whether `receive` would return at once. A dead worker's end is an answer too."""
        return self.pipe.poll(0)

    def receive(self, patience_s: float | None = None) -> Answer:
        """Wait for the next message, written by `send_plain`; None waits as long as the worker lives.

        Raises:
            TrialError: the worker died or failed, or has not answered for ``patience_s`` and was killed.
        """
        if not self.pipe.poll(patience_s):
            raise self._hangs(patience_s)
        try:
            answer = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(answer, str):
            raise self._failed(answer)
        return answer

    @property
    def _name(self) -> str:
        return f"{self.spec.title} (process {self.process.pid})"

    def _hangs(self, patience_s: float | None) -> TrialError:
        self.process.kill()
        self.process.join()
        return TrialError(
            explain(
                f"the {self._name} gave no answer{self.doing} and was stopped",
                got=f"{patience_s:.3g} s without one; last words: {last_words(self.spec.log)}",
                allowed="an answer in about the time the first rank takes itself",
                hint="is the machine swapping, or the process stopped? go on from the last checkpoint",
            )
        )

    def _failed(self, why: str) -> TrialError:
        return TrialError(f"the {self._name} failed{self.doing}: {why}")

    def _ended(self) -> TrialError:
        """Return why nobody reads: the cause it sent before it left, if it had the time."""
        why = unread_failure(self.pipe)
        return self._died() if why is None else self._failed(why)

    def _died(self) -> TrialError:
        self.process.join(EXIT_S)
        return TrialError(
            explain(
                f"the {self._name} died{self.doing} with exit code {_cause(self.process.exitcode)}",
                got=f"last words: {last_words(self.spec.log)}",
                allowed="a worker that lives as long as the run",
                hint="9 is often the system out of memory; go on from the last checkpoint, if the run keeps some",
            )
        )

    def close(self, *, at_once: bool = False) -> None:
        """Stop the worker: politely, then by id; ``at_once`` by id, because nobody wants what it is at."""
        self.pipe.close()
        if not at_once:
            self.process.join(EXIT_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def say(words: str) -> None:
    """Write a line to the worker's log."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def last_words(log: Path) -> str:
    """Return the last lines of a worker's log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "none"
    return " | ".join(line.strip() for line in lines[-LAST_WORDS:] if line.strip()) or "none"


def worker_spec(job: JobSpec, knobs: EngineKnobs, seed: int, forced: SampledLengths | None, folder: Path) -> WorkerSpec:
    """Return the spec of a worker whose parent is this process."""
    return WorkerSpec(job=job, knobs=knobs, seed=seed, forced=forced, folder=folder, parent_pid=os.getpid())


def _work(spec: Spec, pipe: Connection, work: Work[Spec], shared: object) -> None:
    die_with_parent(spec.parent_pid)
    _print_to(spec.log)
    torch.set_num_threads(spec.threads)
    with limited(spec.cores):
        try:
            work(spec, pipe, shared)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the trainer has hung up
        except Exception as error:  # noqa: BLE001  process edge: the trainer re-raises it with the cause
            send_failure(pipe, error)


def _print_to(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.dup2(2, 1)
    os.close(file)
    faulthandler.enable(sys.stderr)


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and -exit_code in set(signal.Signals):
        return f"{exit_code} ({signal.Signals(-exit_code).name})"
    return str(exit_code)
