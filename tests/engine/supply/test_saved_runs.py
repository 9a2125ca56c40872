"""A saved run goes on with the same losses; a damaged checkpoint is refused and the one before it taken."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from steptune.core.errors import StoreError
from steptune.core.job import JobSpec
from steptune.engine.checkpoint_file import list_checkpoints, newest_whole, write_checkpoint
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.serve import RunFile

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "ahead"))
from inline_wire import inline_source
from inline_worker import inline_one_step_off
from loop_cases import small_job, small_loop

AHEAD: dict[str, Any] = {
    "schedule": "async",
    "max_lag": 2,
    "compact_finished": True,
    "correction": "tis",
    "make_source": inline_source,
}
OFF: dict[str, Any] = {"schedule": "one_step_off", "correction": "tis", "make_source": inline_one_step_off}


def job() -> JobSpec:
    spec = small_job(lr=1e-2, overlong_buffer_len=11)
    return spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_staleness": 2})})


def losses_of(loop: Loop, num_steps: int) -> list[tuple[float | None, int, int]]:
    made = [loop.step() for _ in range(num_steps)]
    return [(step.loss, step.weight_version, step.lag_max) for step in made]


@pytest.mark.parametrize("how", [{}, OFF, AHEAD], ids=["sync", "one_step_off", "async"])
def test_a_resumed_run_goes_on_with_the_same_losses_versions_and_ages(tmp_path: Path, how: dict[str, Any]) -> None:
    whole = small_loop(job(), tmp_path / "whole", checkpoint_every=2, **how)
    expected = losses_of(whole, 5)
    whole.close()
    begun = small_loop(job(), tmp_path / "killed", checkpoint_every=2, **how)
    losses_of(begun, 3)  # the third step is lost
    begun.close()
    again = small_loop(job(), tmp_path / "killed", checkpoint_every=2, **how)
    assert again.resume() == ()
    assert again.step_index == 2
    assert losses_of(again, 3) == expected[2:]
    lengths = again.lengths().completion
    again.close()
    assert len(lengths) == 5 * 16


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    loops = [small_loop(job(), tmp_path / str(every), checkpoint_every=every) for every in (None, 1)]
    assert losses_of(loops[0], 3) == losses_of(loops[1], 3)
    for loop in loops:
        loop.close()


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    loop = small_loop(job(), tmp_path, checkpoint_every=1)
    loop.step()
    loop.close()
    other = small_loop(job(), tmp_path, checkpoint_every=1, seed=2)
    with pytest.raises(StoreError, match="of another run, got another seed"):
        other.resume()
    other.close()


def flip_a_bit(content: bytearray) -> None:
    content[-5] ^= 4


def cut(content: bytearray) -> None:
    del content[200:]


def scribble(content: bytearray) -> None:
    content[:4] = b"oops"


@pytest.mark.parametrize(
    ("damage", "got"), [(flip_a_bit, "another hash"), (cut, "bytes of"), (scribble, "no header of ours")]
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(
    tmp_path: Path, damage: Callable[[bytearray], None], got: str
) -> None:
    write_checkpoint(tmp_path, 4, b"four" * 100)
    newest = write_checkpoint(tmp_path, 6, b"six!" * 100)
    content = bytearray(newest.read_bytes())
    damage(content)
    newest.write_bytes(content)
    found = newest_whole(tmp_path)
    assert found.payload == b"four" * 100
    assert len(found.problems) == 1
    assert got in found.problems[0]
    assert "step-000006.state is damaged" in found.problems[0]
    assert "hint:" in found.problems[0]
    assert newest.exists()


def test_two_checkpoints_are_kept_and_nobody_elses_file_is_touched(tmp_path: Path) -> None:
    mine = tmp_path / "step-mine.state"
    mine.write_text("the user's own")
    for step in (8, 9, 10, 1_000_000):
        write_checkpoint(tmp_path, step, b"x")
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-1000000.state", "step-000010.state"]
    assert mine.read_text() == "the user's own"
    assert not list(tmp_path.glob(".*"))


def test_a_folder_without_checkpoints_begins_anew(tmp_path: Path) -> None:
    assert newest_whole(tmp_path / "none").path is None
    loop = small_loop(job(), tmp_path, checkpoint_every=5)
    assert loop.resume() == ()
    assert loop.step_index == 0
    loop.close()


def test_a_full_disk_is_said_and_the_older_checkpoint_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, 1, b"one")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("steptune.engine.checkpoint_file.os.fsync", full)
    with pytest.raises(StoreError, match="could not be written, got No space left on device"):
        write_checkpoint(tmp_path, 2, b"two")
    assert newest_whole(tmp_path).payload == b"one"


def serve(folder: Path, *, resume: bool) -> subprocess.Popen[str]:
    start = folder / "start.pt"
    if not resume:
        torch.save(build_model(job().model, TOKENIZER.vocab_size, seed=1).state_dict(), start)
    run = RunFile(
        job=job(),
        knobs=EngineKnobs(rollout_threads=1, train_threads=1, schedule="one_step_off", correction="tis"),
        seed=1,
        forced_lengths=None,
        capture_batches=0,
        start_path=str(start),
        parent_pid=os.getpid(),
        checkpoint_every=3,
        resume=resume,
    )
    (folder / "run.json").write_text(run.model_dump_json())
    command = [sys.executable, "-m", "steptune.engine.serve", str(folder / "run.json"), str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert answer_of(process)["answer"] == "ready"
    return process


def order(process: subprocess.Popen[str], num_steps: int) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"order": "steps", "num_steps": num_steps}) + "\n")
    process.stdin.flush()


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 120.0)[0], "no answer"
    return json.loads(process.stdout.readline())


def test_a_run_killed_in_the_middle_of_a_step_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    process = serve(tmp_path, resume=False)
    order(process, 4)
    before = answer_of(process)["observations"]
    order(process, 6)
    order(process, 1000)
    answer_of(process)  # of the six: the process is in the middle of the thousand
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    last = newest_whole(tmp_path / "state").path
    assert last is not None
    again = serve(tmp_path, resume=True)
    order(again, 2)
    after = answer_of(again)["observations"]
    again.communicate()
    first = after[0]["step"]
    assert first == int(last.stem.removeprefix("step-")) >= 9
    # an undisturbed run of the same length
    reference = small_loop(job(), tmp_path / "reference", **OFF)
    expected = losses_of(reference, first + 2)
    reference.close()
    assert [(o["loss"], o["weight_version"], o["lag_max"]) for o in before] == expected[:4]
    assert [(o["loss"], o["weight_version"], o["lag_max"]) for o in after] == expected[first:]
