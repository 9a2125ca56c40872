"""Describes the machine a session runs on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from steptune.core.event import Machine
from steptune.core.framework import Framework


def describe_machine(framework: Framework) -> Machine:
    """Return what a reader needs to know of this machine to compare numbers."""
    return Machine(
        cpu=cpu_name(),
        num_cores=os.cpu_count() or 1,
        memory_bytes=framework.total_memory_bytes(),
        python=platform.python_version(),
        torch=torch_version(),
        platform=f"{platform.system()} {platform.machine()}",
    )


def cpu_name() -> str:
    """Return the processor's model name, or its architecture where the system does not say."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def torch_version() -> str | None:
    """Return the installed torch version without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
