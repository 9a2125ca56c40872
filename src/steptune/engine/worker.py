"""A process that works for the trainer: started, heard (`wire_end`) and stopped by its id.

It dies with its parent. What it prints goes to a file of its own, so that when it dies without an answer (a signal,
a crash in a library) its last words can be told.
"""

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, final

import torch

from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.pipes import send_failure
from steptune.engine.process import die_with_parent
from steptune.engine.quota.limit import limited
from steptune.engine.quota.split import split_of
from steptune.engine.wire_end import Lent, WireEnd

EXIT_S = 5.0
"""Seconds a worker gets to leave by itself before it is killed by id."""


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
    replica: int = 0
    """Which of `EngineKnobs.rollout_replicas` it is."""

    @property
    def title(self) -> str:
        """See `ProcessSpec`."""
        return "rollout worker" if self.rank is None else f"rollout replica {self.rank}"

    @property
    def log(self) -> Path:
        """See `ProcessSpec`."""
        return self.folder / f"{self._file}.stderr.txt"

    @property
    def events(self) -> Path:
        """Where its spans and counts go."""
        return self.folder / f"events.{self._file}.jsonl"

    @property
    def rank(self) -> int | None:
        """What its spans say it is; None where it is the only one."""
        return None if self.knobs.rollout_replicas == 1 else self.replica

    @property
    def _file(self) -> str:
        return f"rollout-{self.replica}" if self.replica else "rollout"

    @property
    def threads(self) -> int:
        """See `ProcessSpec`."""
        return self.knobs.rollout_threads

    @property
    def cores(self) -> float | None:
        """See `ProcessSpec`."""
        split = split_of(self.job.devices.num_cores, self.knobs)
        return None if split is None else split.rollout / self.knobs.rollout_replicas


Answer = TypeVar("Answer")
"""What a worker sends."""

Spec = TypeVar("Spec", bound=ProcessSpec)
"""What the process is started with."""

Work = Callable[[Spec, Connection, Any], None]
"""The worker's main loop: (its spec, its end of the wire, what it shares with the trainer)."""


@final
class WorkerProcess(Generic[Answer]):
    """The trainer's end of the wire, and the process behind it."""

    def __init__(self, spec: Spec, work: Work[Spec], shared: object) -> None:
        self.spec: ProcessSpec = spec
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(spec, far_end, work, shared), daemon=True)
        self.process.start()
        far_end.close()
        self.doing = ""
        """What it was last asked to do, for an error to say."""
        self.end = WireEnd[Answer](self._name, spec.log, self.pipe, self._kill, self._cause)

    def send(self, message: object) -> None:
        """Send a message. Raises TrialError when the worker died."""
        self._end().send(message)

    def send_plain(self, message: object, patience_s: float) -> None:
        """Send a message whose tensors go by value; see `WireEnd.send_plain`."""
        self._end().send_plain(message, patience_s)

    def has_answer(self) -> bool:
        """Return whether `receive` would return at once. A dead worker's end is an answer too."""
        return self.end.has_answer()

    def receive(self, patience_s: float | None = None) -> Answer:
        """Wait for the next message; see `WireEnd.receive`."""
        return self._end().receive(patience_s)

    def _end(self) -> WireEnd[Answer]:
        self.end.doing = self.doing
        return self.end

    def lend(self) -> Lent:
        """Return the wire for another process to use. The process stays this one's, to be stopped by `close`."""
        return Lent(name=self._name, log=self.spec.log, pid=self.process.pid or 0, pipe=self.pipe)

    @property
    def _name(self) -> str:
        return f"{self.spec.title} (process {self.process.pid})"

    def _kill(self) -> None:
        self.process.kill()

    def _cause(self) -> str:
        self.process.join(EXIT_S)
        return f" with exit code {_cause(self.process.exitcode)}"

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


def worker_spec(
    job: JobSpec, knobs: EngineKnobs, seed: int, forced: SampledLengths | None, folder: Path, replica: int = 0
) -> WorkerSpec:
    """Return the spec of a worker whose parent is this process."""
    return WorkerSpec(
        job=job, knobs=knobs, seed=seed, forced=forced, folder=folder, parent_pid=os.getpid(), replica=replica
    )


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
