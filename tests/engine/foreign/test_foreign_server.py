"""The process: alive, dead, late, and gone with all it started."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_cases import MINIMAL, child_of, is_alive, stub

from steptune.core.errors import TrialError
from steptune.engine.foreign.server import GUARD, cause
from steptune.engine.foreign.settings import VllmSettings, command, environment
from steptune.engine.foreign.wire import Wire

PATIENCE_S = 20.0


def until(happened: Callable[[], bool]) -> bool:
    """Wait for something that another process does; False if it never does."""
    stop_s = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > stop_s:
            return False
        os.sched_yield()
    return True


def test_closing_leaves_no_process_of_the_group(tmp_path: Path) -> None:
    server = stub(tmp_path, tmp_path / "0")
    server.wait_until(Wire(server, 5.0).is_healthy, PATIENCE_S)
    child = child_of(server.log)
    assert child is not None
    assert is_alive(child)
    assert server.peak_memory_bytes()
    server.close()
    server.close()
    assert not server.is_running()
    assert until(lambda: not is_alive(child))


def test_a_server_that_dies_takes_its_engine_with_it(tmp_path: Path) -> None:
    server = stub(tmp_path, tmp_path / "0")
    server.wait_until(Wire(server, 5.0).is_healthy, PATIENCE_S)
    child = child_of(server.log)
    assert child is not None
    parent = int(Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)  # as the system does when memory runs out
    assert until(lambda: not is_alive(child))
    assert until(lambda: not server.is_running())
    assert "exit code -9" in cause(server.log)
    server.close()


def test_a_killed_owner_takes_the_server_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, sys.argv[1], sys.executable, '-c', sys.argv[2]], stdin=subprocess.PIPE,"
        " stdout=open(sys.argv[3], 'w'), start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    served = "import os, time; print('engine process', os.getpid(), flush=True); time.sleep(600)"
    owner = subprocess.Popen([sys.executable, "-I", "-c", script, str(GUARD), served, str(log)], env=MINIMAL)
    assert until(lambda: child_of(log) is not None)
    owner.kill()
    owner.wait()
    child = child_of(log)
    assert child is not None
    assert until(lambda: not is_alive(child))


def test_a_server_that_dies_at_its_start_says_why(tmp_path: Path) -> None:
    server = stub(tmp_path, tmp_path / "0", "die_at_start")
    with pytest.raises(TrialError, match=r"died while it was starting.*Available memory on node 0"):
        server.wait_until(Wire(server, 5.0).is_healthy, PATIENCE_S)
    assert not server.is_running()


def test_a_server_that_never_answers_is_stopped_with_its_last_words(tmp_path: Path) -> None:
    server = stub(tmp_path, tmp_path / "0", "mute")
    assert until(lambda: child_of(server.log) is not None)
    with pytest.raises(TrialError, match=r"does not answer.*engine process"):
        server.wait_until(Wire(server, 5.0).is_healthy, 0.0)
    assert not server.is_running()


def test_the_cause_is_the_first_errors_not_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = [
        "(APIServer pid=5) WARNING 11-30 This can cause fd limit errors like `OSError: [Errno 24] Too many open files`",
        "INFO ready",
        "(Worker pid=7) ERROR 11-30 RuntimeError: Unsupported CPU attention configuration: head_dim=16",
        "(Worker pid=7) ERROR 11-30 RuntimeError: Unsupported CPU attention configuration: head_dim=16",
        "(APIServer pid=5) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "INFO shutting down",
    ]
    log.write_text("\n".join(lines), encoding="utf-8")
    assert cause(log) == (
        "RuntimeError: Unsupported CPU attention configuration: head_dim=16"
        " | vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    )
    assert cause(tmp_path / "none") == "nothing"


def test_nothing_secret_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = environment(VllmSettings(python=Path("p")), tmp_path)
    assert "secret" not in found.values()
    assert found["HOME"] == str(tmp_path)


def test_the_server_listens_on_the_loopback_and_has_the_limits_asked_for() -> None:
    settings = VllmSettings(python=Path("p"), dtype="bf16", num_kv_blocks=40, prefix_caching=False)
    words = command(settings, Path("/m"), 8123, "raw_logprobs")
    pairs = dict(itertools.pairwise(words))
    assert pairs["--host"] == "127.0.0.1"
    assert pairs["--num-gpu-blocks-override"] == "40"
    assert pairs["--dtype"] == "bfloat16"
    assert pairs["--logprobs-mode"] == "raw_logprobs"
    assert {"--no-enable-prefix-caching", "--enforce-eager", "--skip-tokenizer-init"} <= set(words)
    assert "--no-enable-chunked-prefill" in words
