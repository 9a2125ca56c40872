"""A slow server is waited for as long as its engine works; a hung or dead one is told apart, at once and by name."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from foreign_cases import STATE, child_of, grouped_prompts, stub, stub_engine

from steptune.core.errors import TrialError
from steptune.engine.foreign import server as server_module
from steptune.engine.foreign.messages import Ask
from steptune.engine.foreign.progress import Progress
from steptune.engine.foreign.server import ServerProcess
from steptune.engine.foreign.wire import Wire

ASK = Ask(prompts=[[5]], num_samples=1, max_tokens=3, is_forced=True, temperature=1.0, seed=1, eos_ids=(2,))
LONG_S = 60.0
SOON_S = 0.05


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[ServerProcess]:
    server = stub(tmp_path, tmp_path / "0", request.param)
    server.wait_until(Wire(server, LONG_S).is_healthy, LONG_S)
    yield server
    server.close()


def stub_pid(server: ServerProcess) -> int:
    """Return the process that answers: the parent of what it started."""
    child = child_of(server.log)
    return int(Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def test_who_waits_long_is_patient_while_iterations_are_counted_and_not_longer() -> None:
    now_s, iterations = [0.0], [7]
    progress = Progress(lambda: iterations[0], 10.0, look_s=1.0, clock=lambda: now_s[0])
    for now_s[0] in range(1, 100, 9):
        iterations[0] += 1
        assert not progress.is_stalled(since_s=0.0)
    last_s = now_s[0]
    now_s[0] = last_s + 10
    assert not progress.is_stalled(since_s=0.0)
    now_s[0] = last_s + 10.5
    assert progress.is_stalled(since_s=0.0)
    assert not progress.is_stalled(since_s=last_s + 5)  # it has not waited that long itself


def test_an_unread_counter_is_no_progress_and_nobody_looks_twice_at_once() -> None:
    now_s, looks = [0.0], list[float]()
    progress = Progress(lambda: looks.append(now_s[0]), 10.0, look_s=1.0, clock=lambda: now_s[0])  # type: ignore[arg-type, func-returns-value]
    for now_s[0] in (1.0, 1.2, 1.9, 2.0, 11.5):
        stalled = progress.is_stalled(since_s=1.0)
    assert looks == [1.0, 2.0, 11.5]
    assert stalled


@pytest.mark.parametrize("started", ["slow"], indirect=True)
def test_an_answer_that_takes_many_looks_comes(started: ServerProcess) -> None:
    # the stub answers when its counter of iterations, one more at every look, has been read five times
    (choice,) = Wire(started, LONG_S, look_s=0.002).complete(ASK)
    assert len(choice.token_ids) == 3


@pytest.mark.parametrize("started", ["slow"], indirect=True)
def test_a_server_that_hangs_is_said_to_and_goes_when_closed(
    started: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.killpg(started.group, signal.SIGSTOP)  # its guard too
    with pytest.raises(TrialError, match=r"did not answer `/v1/completions`, got TimeoutError: no iteration of its"):
        Wire(started, SOON_S).complete(ASK)
    monkeypatch.setattr(server_module, "EXIT_S", SOON_S)
    started.close()
    assert not started.is_running()


def test_a_server_killed_while_it_owes_an_answer_is_dead_not_late(tmp_path: Path) -> None:
    engine = stub_engine(tmp_path, "die_on_ask")
    engine.load(STATE, 0)
    server = engine.server
    assert server is not None
    with pytest.raises(TrialError, match=r"died during `/v1/completions`.*head_dim=16"):
        engine.generate(grouped_prompts(), max_completion_len=4, temperature=1.0, seed=1)
    assert not server.is_running()
    engine.close()


@pytest.mark.parametrize("started", [""], indirect=True)
def test_a_server_killed_between_two_requests_is_dead_too(started: ServerProcess) -> None:
    os.kill(stub_pid(started), signal.SIGKILL)
    with pytest.raises(TrialError, match=r"died during `/v1/completions`.*exit code -9"):
        Wire(started, LONG_S).complete(ASK)
