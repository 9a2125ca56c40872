"""The embedded engine keeps the framework contract, with real processes on a job that runs in milliseconds."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.orphans import stop_marked
from steptune.adapters.embedded.session import RUN_MARK, EngineSession, stall_s_of
from steptune.core.errors import KilledError, TrialError
from steptune.core.framework import LaunchSpec, ParityInput, SideReplay
from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, LimitsSpec, MathWorkload, SftSpec
from steptune.core.phase import Role
from steptune.guard.update_parity import BAND_FACTOR, ROUNDING_DISTANCE
from steptune.testing.framework_contract import CHECKS, LIVE_CHECKS, Check, Subject

JOB = JobSpec(
    name="small",
    model=DenseModel(num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, d_ff=64),
    workload=MathWorkload(levels=(1,), num_validation=50),
    sft=SftSpec(num_steps=150, batch_size=32),
    # the overlong punishment makes rewards differ even where a weak model solves nothing
    algorithm=AlgorithmSpec(prompts_per_step=4, group_size=4, max_completion_len=16, overlong_buffer_len=12),
    limits=LimitsSpec(max_staleness=1, allow_corrections=True),
)


@pytest.fixture(scope="module")
def framework(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedFramework:
    return EmbeddedFramework(cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def session(framework: EmbeddedFramework, tmp_path: Path) -> Iterator[EngineSession]:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    session = framework.launch(JOB, LaunchSpec(settings=settings, seed=1), tmp_path / "run")
    yield session
    session.close()


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.__name__)
def test_the_embedded_framework_keeps_the_contract(check: Check, framework: EmbeddedFramework, tmp_path: Path) -> None:
    check(Subject(framework=framework, job=JOB, folder=tmp_path))


@pytest.mark.parametrize("check", LIVE_CHECKS.values(), ids=lambda check: check.__name__)
def test_live_runs_of_the_embedded_framework_keep_the_contract(
    check: Check, framework: EmbeddedFramework, tmp_path: Path
) -> None:
    check(Subject(framework=framework, job=JOB, folder=tmp_path))


def test_a_run_saves_its_weights_as_a_folder_and_goes_on(session: EngineSession, tmp_path: Path) -> None:
    session.run_steps(1)
    assert session.save_model(tmp_path / "models" / "step-1") is None
    names = sorted(path.name for path in (tmp_path / "models" / "step-1").iterdir())
    assert names == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    (tmp_path / "a_file").touch()
    assert "NotADirectoryError" in (session.save_model(tmp_path / "a_file" / "step-1") or "")
    assert session.run_steps(1)[0].step == 1


def test_patience_grows_with_the_model(session: EngineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def ask(_order: object, timeout_s: float) -> dict[str, Any]:
        asked.append(timeout_s)
        return {"observations": [], "refused": None}

    monkeypatch.setattr(session, "_ask", ask)
    session.run_steps(1)
    session.save_model(tmp_path)
    session.min_stall_s = stall_s_of(40e6)  # ten times SMALL_PARAMETERS
    session.run_steps(1)
    session.save_model(tmp_path)
    assert asked == [2 * 60, 120, 2 * 600, 600]


def test_a_killed_run_says_so_and_can_be_closed(session: EngineSession) -> None:
    session.run_steps(1)
    os.kill(session.process.pid, signal.SIGKILL)
    with pytest.raises(KilledError, match="died with exit code -9"):
        session.run_steps(1)
    session.close()


def test_a_run_that_the_kernel_killed_for_memory_is_out_of_memory(
    session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.run_steps(1)
    counted = session.oom_kills_before or 0
    monkeypatch.setattr("steptune.adapters.embedded.session.num_oom_kills", lambda: counted + 1)
    os.kill(session.process.pid, signal.SIGKILL)
    with pytest.raises(MemoryError, match="the kernel killed it for want of memory"):
        session.run_steps(1)


def test_a_run_whose_own_worker_is_killed_was_killed_too(framework: EmbeddedFramework, tmp_path: Path) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    ahead = {"schedule": "one_step_off", "handover": "copy", "correction": "tis"}
    threads = {"rollout_threads": 1, "train_threads": 1}
    session = framework.launch(JOB, LaunchSpec(settings={**settings, **ahead, **threads}, seed=1), tmp_path / "run")
    session.run_steps(1)
    workers = [
        pid for pid in children_of(session.process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(workers[-1], signal.SIGKILL)
    with pytest.raises(KilledError, match="SIGKILL"):
        session.run_steps(1)


def test_settings_the_engine_refuses_are_an_error_with_the_cause(framework: EmbeddedFramework, tmp_path: Path) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    broken = LaunchSpec(settings={**settings, "handover": "alias", "rollout_dtype": "bf16"}, seed=1)
    session = framework.launch(JOB, broken, tmp_path / "run")
    with pytest.raises(TrialError, match="handover"):
        session.run_steps(1)
    session.close()


def test_processes_of_a_killed_session_are_found_by_their_mark(session: EngineSession) -> None:
    session.run_steps(1)
    stopped = stop_marked(str(session.folder.resolve()))
    assert session.process.pid in stopped
    assert session.process.wait(5) == -signal.SIGKILL


def test_layout_and_recomputation_move_an_update_no_further_than_a_reshuffle(
    framework: EmbeddedFramework, tmp_path: Path
) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    session = framework.launch(JOB, LaunchSpec(settings=settings, seed=1, capture_batches=2), tmp_path / "run")
    session.run_steps(2)
    session.close()
    batches = str(tmp_path / "run" / "batches")
    other = {**settings, "layout": "padded", "recompute": True, "micro_batch_tokens": 64}
    first, same, *shuffled = framework.replay_updates(
        JOB,
        [
            ParityInput(settings=settings, batches_dir=batches),
            ParityInput(settings=other, batches_dir=batches),
            *(ParityInput(settings=settings, batches_dir=batches, shuffle_seed=seed) for seed in (1, 2)),
        ],
        tmp_path / "replay",
    )
    band = [item.distance_to_first for item in shuffled]
    assert first.distance_to_first == 0
    assert same.distance_to_first is not None
    # rows that are packed are sorted, so shuffling them moves next to nothing
    assert same.distance_to_first < max(
        BAND_FACTOR * max(distance for distance in band if distance is not None), ROUNDING_DISTANCE
    )


def test_a_session_killed_with_its_run_at_work_leaves_no_process(tmp_path: Path) -> None:
    script = Path(__file__).with_name("orphan_session.py")
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        run = int(started.stdout.readline())
        family = [run, *children_of(run)]
        assert len(family) >= 2, "the run has a rollout worker"
        started.kill()
    deadline_s = time.monotonic() + 10
    while any(is_alive(pid) for pid in family) and time.monotonic() < deadline_s:
        os.sched_yield()
    assert [pid for pid in family if is_alive(pid)] == []


def test_a_session_killed_in_its_sft_start_leaves_no_process(tmp_path: Path) -> None:
    endless = JOB.model_copy(update={"sft": SftSpec(num_steps=10**6)})
    program = (
        "import sys; from pathlib import Path; from steptune.core.job import JobSpec; "
        "from steptune.adapters.embedded.framework import EmbeddedFramework; "
        "EmbeddedFramework(cache_dir=Path(sys.argv[1])).start(JobSpec.model_validate_json(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path), endless.model_dump_json()]
    with subprocess.Popen(command) as started:
        while not (trainers := children_of(started.pid)):
            os.sched_yield()
        started.kill()
    deadline_s = time.monotonic() + 10
    while any(is_alive(pid) for pid in trainers) and time.monotonic() < deadline_s:
        os.sched_yield()
    left = [pid for pid in trainers if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    listed = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(child) for text in listed for child in text.split()]


def is_alive(pid: int) -> bool:
    """Return whether the process runs; one that nobody has waited for yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_hangs_is_asked_for_its_stack_and_stopped(session: EngineSession) -> None:
    session.run_steps(1)
    with pytest.raises(TrialError, match=r"no answer for 0 s, hung in .*; the run was stopped; its log is"):
        session._ask({"order": "steps", "num_steps": 1_000_000, "rehearse_s": 0.0}, 0.3)
    assert session.process.poll() is not None
    assert "in _serve" in (session.folder / "stderr.txt").read_text()  # the stack, printed by the run itself


def test_each_side_is_replayed_alone_by_a_helper_that_ends_with_its_context(
    framework: EmbeddedFramework, tmp_path: Path
) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    (tmp_path / "journal.jsonl").touch()  # one run folder, so one mark
    session = framework.launch(JOB, LaunchSpec(settings=settings, seed=1, capture_batches=1), tmp_path / "run")
    session.run_steps(1)
    session.close()
    assert not framework.is_ready_to_replay()
    with framework.helper():
        moved = {"layout": "padded", "compact_finished": False}  # a change of both sides, half by half
        for side in (Role.TRAINER, Role.ROLLOUT):
            assert side in framework.replayable_sides(JOB, {**settings, **moved})
            wanted = SideReplay(
                side=side,
                incumbent=settings,
                candidate={**settings, **moved},
                batches_dir=str(tmp_path / "run" / "batches"),
                looks=(4,),
                line=1.0,
                spread=None,
                max_s=60,
            )
            times = framework.replay_side(JOB, wanted, tmp_path / side)
            assert len(times.incumbent_s) == len(times.candidate_s) == 4
            assert framework.is_ready_to_replay()
        helpers = marked(tmp_path)
        assert len(helpers) == 1, "both orders went to one process"
    assert not framework.is_ready_to_replay()
    assert marked(tmp_path) == []


def marked(run_folder: Path) -> list[int]:
    """Return the processes that carry the mark of a run folder."""
    wanted, found = f"{RUN_MARK}={run_folder.resolve()}".encode(), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_side_is_not_replayed_where_a_recorded_batch_does_not_hold_its_work(framework: EmbeddedFramework) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    sampled = JOB.model_copy(update={"algorithm": JOB.algorithm.model_copy(update={"dynamic_sampling": True})})
    assert framework.replayable_sides(sampled, settings) == {Role.TRAINER}
    assert framework.replayable_sides(JOB, {**settings, "rollout_cores": 0.5}) == frozenset()
    assert framework.replayable_sides(JOB, {**settings, "train_ranks": 2}) == frozenset()


def test_a_side_whose_threads_sleep_in_a_run_is_not_replayed_where_they_spin(framework: EmbeddedFramework) -> None:
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    crowded = {**settings, "schedule": "one_step_off", "handover": "copy", "rollout_threads": 1, "train_threads": 2}
    assert framework.replayable_sides(JOB, crowded) == {Role.ROLLOUT}
