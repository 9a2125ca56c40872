import os
import subprocess
import sys
from pathlib import Path

import pytest

from steptune.core.errors import StoreError
from steptune.store.lock import POLL_S, SESSION_LOCK_NAME, machine_lock, session_lock

HOLDER = """
import subprocess, sys
from pathlib import Path
from steptune.store.lock import machine_lock, session_lock

CHILD = "import os; print(os.getpid(), flush=True); input()"

def refuse(pid, waited_s):
    raise SystemExit(f"held by {pid}")

folder = Path(sys.argv[1])
with session_lock(folder), machine_lock(refuse, folder=folder):
    # the child tells that it runs: only then has it surely let go of the files it was forked with
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, close_fds=False)
    input()
"""


def not_waiting(pid: int | None, waited_s: float) -> None:
    raise AssertionError(f"waited {waited_s} s for {pid}")


def holder(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLDER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_second_session_is_refused_and_told_the_pid(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with (
            pytest.raises(StoreError, match=f"in use by another session, got pid {other.pid};"),
            session_lock(tmp_path),
        ):
            pass
        other.communicate("\n")
    with session_lock(tmp_path):
        assert (tmp_path / SESSION_LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_the_pid_of_a_former_holder_leaves_no_digit_behind(tmp_path: Path) -> None:
    (tmp_path / SESSION_LOCK_NAME).write_text("99999999999\n")
    with session_lock(tmp_path):
        assert (tmp_path / SESSION_LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_two_sessions_in_one_process_are_two_sessions(tmp_path: Path) -> None:
    with session_lock(tmp_path), pytest.raises(StoreError, match=f"pid {os.getpid()}"), session_lock(tmp_path):
        pass


def test_a_killed_holder_lets_go_although_its_child_lives(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        assert other.stdout is not None
        child_pid = int(other.stdout.readline())
        other.kill()
        other.wait()
        os.kill(child_pid, 0)  # still there (it ends by itself once nobody holds the other end of its input)
        with session_lock(tmp_path), machine_lock(not_waiting, folder=tmp_path):
            pass


def test_the_machine_lock_waits_and_tells_for_whom(tmp_path: Path) -> None:
    waits: list[tuple[int | None, float]] = []
    with holder(tmp_path) as other:
        assert other.stdout is not None
        other.stdout.readline()

        def sleep(seconds: float) -> None:
            assert seconds == POLL_S
            if len(waits) == 3:
                other.communicate("\n")

        with machine_lock(lambda pid, waited_s: waits.append((pid, waited_s)), folder=tmp_path, sleep=sleep):
            pass
    assert waits == [(other.pid, 0.0), (other.pid, POLL_S), (other.pid, 2 * POLL_S)]


def test_whoever_waits_may_give_up(tmp_path: Path) -> None:
    class GivenUpError(Exception):
        pass

    def give_up(pid: int | None, waited_s: float) -> None:
        raise GivenUpError

    first = machine_lock(not_waiting, folder=tmp_path)
    with first, pytest.raises(GivenUpError), machine_lock(give_up, folder=tmp_path):
        pass
    with machine_lock(not_waiting, folder=tmp_path):
        pass


def test_the_machine_lock_lies_in_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with machine_lock(not_waiting):
        assert [path.name for path in tmp_path.iterdir()] == [f"steptune-measure-{os.getuid()}.lock"]


def test_a_lock_is_no_way_to_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / SESSION_LOCK_NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(StoreError, match="opening the lock"), session_lock(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "keep"


def test_a_vanished_folder_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file or folder"), session_lock(tmp_path / "gone"):
        pass
