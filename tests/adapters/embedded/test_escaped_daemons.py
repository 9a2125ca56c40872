"""A daemon that left an engine run, its parent and its session is found by the run mark and stopped."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import daemon_run
import pytest

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.orphans import run_mark
from steptune.adapters.embedded.session import EngineSession, session_environment
from steptune.core.errors import StoreError, TrialError
from steptune.core.job import JobSpec
from steptune.store.run_folder import RunFolder
from steptune.tune.session import TuneOptions, resume_session

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", JobSpec(name="escape"), now)


@pytest.fixture
def escaped(folder: RunFolder, tmp_path: Path) -> Iterator[int]:
    """Process id of a daemon that a trial's run left behind."""
    out = folder.path / "trials" / "001" / "candidate"
    base = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    environment = session_environment(base, run_mark(folder.path), tmp_path / "cache")
    run = EngineSession("{}", out, environment, module=daemon_run.__name__)
    with pytest.raises(TrialError, match="died with exit code 1"):
        run.run_steps(1)
    pid = int((out / "daemon.pid").read_text())
    yield pid
    if is_daemon(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_resume_finds_and_stops_a_daemon_that_left_its_run(escaped: int, folder: RunFolder, tmp_path: Path) -> None:
    assert is_daemon(escaped), "the run is gone, the daemon is not"
    assert parent_of(escaped) != os.getpid()
    assert os.getsid(escaped) != os.getsid(0)
    told: list[str] = []
    framework = EmbeddedFramework(cache_dir=tmp_path / "cache", say=told.append)
    with pytest.raises(StoreError, match="never started"):  # there is nothing to resume, and still it is stopped
        resume_session(folder.path, framework, TuneOptions(root=folder.path.parent), now, told.append)
    assert not is_daemon(escaped)
    assert told == [f"stopped process {escaped}, left by a killed session on this run folder"]


def test_a_daemon_of_another_run_folder_is_left_alone(escaped: int, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path / "others", JobSpec(name="escape"), now)
    EmbeddedFramework(cache_dir=tmp_path / "cache").clean_up(other.path)
    assert is_daemon(escaped)


def now() -> datetime:
    return datetime.now(UTC)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def is_daemon(pid: int) -> bool:
    """Whether it still sleeps; one that nobody has waited for yet is dead."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]
    except OSError:
        return False
    return command == [word.encode() for word in daemon_run.SLEEP]
