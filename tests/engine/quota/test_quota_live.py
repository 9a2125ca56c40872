"""Quotas on real processes: they hold, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.engine.quota.limit import Way, limited, quota_way

BUSY = Path(__file__).with_name("busy.py")


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(BUSY), *map(str, arguments)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("way", ["cgroup v2", "cgroup v1", "duty cycle"])
def test_a_process_gets_no_more_than_its_quota(way: Way) -> None:
    if way not in ("duty cycle", quota_way()):
        pytest.skip(f"this machine has no {way}")
    with started(way, 0.25, 0.5) as process:
        output, _ = process.communicate(timeout=60)
    # half a second is 25 cycles; a busy machine may give it less, but nobody may give it more
    assert 0 < float(output.split()[-1]) < 0.25 * 1.25


def test_no_quota_changes_nothing() -> None:
    with limited(None):
        assert os.getpgid(0) > 0


def test_a_controller_killed_between_stop_and_resume_leaves_no_stopped_process() -> None:
    with started("forever", 0.01, 1e6) as process:
        assert process.stdout is not None
        controller = int(process.stdout.readline())
        wait_until(lambda: state(process.pid) == "T")
        os.kill(controller, signal.SIGKILL)
        wait_until(lambda: state(process.pid) in "RS")
        process.kill()


def test_a_killed_process_takes_its_controller_along() -> None:
    with started("forever", 0.01, 1e6) as process:
        assert process.stdout is not None
        controller = int(process.stdout.readline())
        wait_until(lambda: state(process.pid) == "T")
        process.kill()
    wait_until(lambda: state(controller) in ("gone", "Z"))


def state(pid: int) -> str:
    """Return the state letter of a process (proc(5)): R running, S sleeping, T stopped, Z dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "gone"


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline_s, "did not come"
        os.sched_yield()
