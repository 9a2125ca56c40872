"""A CPU quota without any rights: a small controller stops and resumes its own parent.

::

    limited process --starts--> controller        dies with its parent (the kernel's parent-death signal)
    limited process <--STOP/CONT-- controller
    limited process <--CONT-- kernel              when the controller's end of the pipe closes, however it died

The surprise is the last arrow: the limited process holds the reading end of a pipe whose only writer is the controller,
and asks the kernel for SIGCONT when it closes (fcntl `F_SETSIG`). So even a controller killed between STOP and CONT
cannot leave a stopped process behind. A shell that started the limited process itself would take it for suspended;
ours are started by a session or another process of ours. Linux only.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Protocol, final

from steptune.engine.process import die_with_parent
from steptune.engine.quota.bucket import Bucket

F_SETSIG = 10
"""fcntl command: signal to send instead of SIGIO (linux/fcntl.h; the fcntl module lacks the name before 3.13)."""


class Target(Protocol):
    """A process under control."""

    def cpu_s(self) -> float:
        """CPU seconds used so far, all threads. Raises ProcessLookupError or OSError when it is gone."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal. Raises ProcessLookupError when it is gone."""
        ...


@final
class LiveTarget:
    """A real process, by its id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.clock_id = (~pid << 3) | 2
        """Its CPU clock (linux/posix-timers.h: CPUCLOCK_SCHED of a process)."""

    def cpu_s(self) -> float:
        """CPU seconds so far, to the nanosecond."""
        return time.clock_gettime(self.clock_id)

    def signal(self, number: int) -> None:
        """Send it."""
        os.kill(self.pid, number)


@final
class DutyQuota:
    """Holds the *calling* process to ``cores`` until released."""

    def __init__(self, *, cores: float, num_threads: int) -> None:
        """Start the controller.

        Raises:
            OSError: it cannot be started.
        """
        self.reading, writing = os.pipe()
        fcntl.fcntl(self.reading, F_SETSIG, signal.SIGCONT)
        fcntl.fcntl(self.reading, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self.reading, fcntl.F_SETFL, fcntl.fcntl(self.reading, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
        command = [sys.executable, "-m", __name__, str(os.getpid()), repr(cores), str(num_threads)]
        try:
            self.controller = subprocess.Popen(command, pass_fds=(writing,), stdin=subprocess.DEVNULL)
        finally:
            os.close(writing)

    def release(self) -> None:
        """End the controller; the kernel resumes this process should it have been stopped just now."""
        self.controller.kill()
        self.controller.wait()
        os.close(self.reading)


def control(
    target: Target,
    *,
    cores: float,
    num_threads: int,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Keep ``target`` at ``cores`` until it is gone."""
    try:
        bucket = Bucket(cores=cores, num_threads=num_threads, wall_s=clock(), cpu_s=target.cpu_s())
        was_stopped = False
        while True:
            wait_s = bucket.look(clock(), target.cpu_s())
            if bucket.is_stopped != was_stopped:
                target.signal(signal.SIGSTOP if bucket.is_stopped else signal.SIGCONT)
                was_stopped = bucket.is_stopped
            sleep(wait_s)
    except OSError:  # ProcessLookupError among them: the process is gone, and with it the work
        return


def main() -> int:
    """Control the parent: `python -m steptune.engine.quota.duty PID CORES THREADS`."""
    pid, cores, num_threads = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    die_with_parent(pid)
    control(LiveTarget(pid), cores=cores, num_threads=num_threads, clock=time.monotonic, sleep=time.sleep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
