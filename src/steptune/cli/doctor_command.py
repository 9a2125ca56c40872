"""`steptune doctor`: what this machine has, and whether the embedded engine can run on it."""

import argparse
import os
import sys
from pathlib import Path

from steptune import __version__
from steptune.cli.frameworks import cache_dir
from steptune.cli.streams import print_line, say
from steptune.core.units import gib
from steptune.engine.quota.limit import quota_way
from steptune.tune.machine import cpu_name, torch_version

MAX_QUIET_LOAD = 0.5
"""One-minute load average per core above which timings are called noisy (a neighbour turned 3 % noise into 12 %)."""


def run(args: argparse.Namespace) -> int:
    """Print one line per check; exit 1 if the embedded engine cannot run."""
    del args
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    torch = torch_version()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    print_line(f"steptune   {__version__}, Python {sys.version.split()[0]}")
    print_line(f"machine    {cpu_name()}, {cores} cores, {gib(memory):.1f} GiB")
    print_line(
        f"load       {load:.2f}: {'quiet enough' if load <= MAX_QUIET_LOAD * cores else 'noisy, expect wide intervals'}"
    )
    print_line(f"quotas     {_cpu_quota()}; a side's share of the cores is held by {quota_way()}")
    print_line(f"cache      {cache_dir()}")
    print_line(f"torch      {torch or 'missing'}")
    if torch is None:
        say("steptune: the embedded engine needs torch; hint: `pip install 'steptune[engine]'`")
        return 1
    return 0


def _cpu_quota() -> str:
    path = Path("/sys/fs/cgroup/cpu.max")
    if not path.exists():
        return "no CPU quota visible"
    return f"cgroup cpu.max {path.read_text(encoding='ascii').strip()}"
