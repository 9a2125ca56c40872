"""Where a run takes place: the device, the sizes, the clock that fits it, and what the file says of the machine.

The surprise: on CUDA a time is what lies between two events on the current stream, and the host waits for the second
one; host time in between that the device spent idle is therefore part of it, as it is in a training step.
"""

import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from gpu.record import Machine

REPOSITORY = Path(__file__).resolve().parents[2]


class UnavailableError(Exception):
    """This device or this torch lacks what a check or a part needs; the message says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """``Site(device=torch.device("cuda"), is_tiny=False)``."""

    device: torch.device
    is_tiny: bool
    """Sizes that prove the script on a CPU in seconds."""

    @property
    def is_cuda(self) -> bool:
        """Whether kernels, streams and events are CUDA's."""
        return self.device.type == "cuda"

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability; (0, 0) of a CPU."""
        return torch.cuda.get_device_capability(self.device) if self.is_cuda else (0, 0)

    def synchronize(self) -> None:
        """Wait until the device has nothing to do."""
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def seconds(self, call: Callable[[], object]) -> float:
        """Return how long ``call`` took."""
        if not self.is_cuda:
            start_s = time.perf_counter()
            call()
            return time.perf_counter() - start_s
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def peak_bytes(self, call: Callable[[], object]) -> int | None:
        """Run ``call``; return the most that was allocated meanwhile, or None where nobody counts."""
        if not self.is_cuda:
            call()
            return None
        torch.cuda.reset_peak_memory_stats(self.device)
        call()
        self.synchronize()
        return torch.cuda.max_memory_allocated(self.device)

    @contextmanager
    def on_another_stream(self) -> Generator[None]:
        """Let everything be enqueued on a stream that is not the default one; a CPU has none."""
        if not self.is_cuda:
            yield
            return
        before, stream = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        stream.wait_stream(before)
        with torch.cuda.stream(stream):
            yield
        before.wait_stream(stream)

    @contextmanager
    def no_host_waits(self) -> Generator[None]:
        """Let every wait of the host for the device raise an error; on a CPU nothing waits."""
        if not self.is_cuda:
            yield
            return
        self.synchronize()
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


def machine(device: torch.device) -> Machine:
    """Return what the file says of the device; of the computer it stands in, nothing."""
    is_cuda = device.type == "cuda"
    properties = torch.cuda.get_device_properties(device) if is_cuda else None
    return Machine(
        device_kind="cuda" if is_cuda else "cpu",
        device_name=properties.name if properties else platform.processor() or platform.machine(),
        capability=f"{properties.major}.{properties.minor}" if properties else None,
        device_bytes=properties.total_memory if properties else None,
        driver=_driver() if is_cuda else None,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        python=platform.python_version(),
    )


def git_state() -> tuple[str | None, bool | None]:
    """Return the commit of this code and whether tracked files are as committed; None where git cannot say."""
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else changes == ""


def _git(*arguments: str) -> str | None:
    return _said("git", "-C", str(REPOSITORY), *arguments)


def _driver() -> str | None:
    lines = (_said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "").splitlines()
    return lines[0].strip() if lines else None


def _said(program: str, *arguments: str) -> str | None:
    """Return what a program printed, or None if it is not there or failed."""
    if shutil.which(program) is None:
        return None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=30)
    return done.stdout.strip() if done.returncode == 0 else None
