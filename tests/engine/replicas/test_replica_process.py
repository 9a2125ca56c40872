"""Replicas as real processes: they die, hang and leave; the error names the one, and what was trained goes on."""

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from steptune.core.errors import TrialError
from steptune.core.job import JobSpec
from steptune.engine.ahead.wires import ProcessWires
from steptune.engine.loop import Loop
from steptune.engine.supply.ahead import Ahead
from steptune.engine.supply.in_process import InProcess
from steptune.engine.supply.one_step_off import OneStepOff
from steptune.engine.worker import WorkerProcess

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "ahead"))
from inline_wire import inline_source
from inline_worker import inline_one_step_off, inline_sync
from loop_cases import small_job, small_loop
from trainer_cases import flat_params

ALONE: dict[str, Any] = {"rollout_concurrency": 1, "checkpoint_every": 1}


def job() -> JobSpec:
    spec = small_job(lr=1e-2, overlong_buffer_len=11)
    return spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_staleness": 1})})


def processes(loop: Loop) -> list[BaseProcess]:
    """Return every process of a source but the trainer's, the replica that is not the first one first."""
    if isinstance(loop.source, InProcess):
        assert loop.source.own.replicas is not None
        ends: list[object] = [wire.end for wire in loop.source.own.replicas.others]
    else:
        assert isinstance(loop.source, OneStepOff)
        ends = [*loop.source.remote.replicas, loop.source.remote.worker]
    return [end.process for end in ends if isinstance(end, WorkerProcess)]


def reference(folder: Path, num_steps: int, **how: Any) -> list[float]:
    """Return the losses of a run of one replica, in this process."""
    source = inline_one_step_off if "schedule" in how else None
    loop = small_loop(job(), folder, make_source=source, **how)
    losses = [loop.step().loss for _ in range(num_steps)]
    loop.close()
    return losses


def test_a_hung_replica_is_named_and_stopped_and_a_resumed_run_repeats_every_loss(tmp_path: Path) -> None:
    losses = reference(tmp_path / "one", 4, **ALONE)
    loop = small_loop(job(), tmp_path, rollout_replicas=2, **ALONE)
    assert [loop.step().loss for _ in range(2)] == losses[:2]
    assert loop.step().memory_peak_bytes > 3e8  # type: ignore[operator]  # both processes'
    (replica,) = processes(loop)
    before = flat_params(loop.model)
    assert isinstance(loop.source, InProcess)
    assert loop.source.own.replicas is not None
    loop.source.own.replicas.others[0].patience_s = 0.01
    os.kill(replica.pid or 0, signal.SIGSTOP)
    with pytest.raises(
        TrialError, match=r"replica 1 \(process \d+\) gave no answer in the hand-over of step 3"
    ) as error:
        loop.step()
    assert "step 2: GenerateOrder" in str(error.value)  # its last words
    assert torch.equal(flat_params(loop.model), before)
    loop.close()
    assert not replica.is_alive()
    again = small_loop(job(), tmp_path, make_source=inline_sync, rollout_replicas=2, **ALONE)
    assert again.resume() == ()
    assert again.step().loss == losses[3]
    again.close()


def test_one_step_ahead_the_worker_tells_of_its_replica_and_nothing_is_left_running(tmp_path: Path) -> None:
    off = {"schedule": "one_step_off", "correction": "tis", **ALONE}
    losses = reference(tmp_path / "one", 5, **off)
    loop = small_loop(job(), tmp_path, rollout_replicas=2, **off)
    steps = [loop.step() for _ in range(3)]
    assert [step.loss for step in steps] == losses[:3]
    assert all({arrival.replica for arrival in step.arrivals} == {0, 1} for step in steps)
    both = processes(loop)
    os.kill(both[0].pid or 0, signal.SIGKILL)
    with pytest.raises(TrialError, match=r"rollout replica 0 .* failed: TrialError: the rollout replica 1 .* died in"):
        [loop.step() for _ in range(3)]
    both[1].join(10)
    loop.close()
    assert not any(process.is_alive() for process in both)
    again = small_loop(job(), tmp_path, make_source=inline_one_step_off, rollout_replicas=2, **off)
    again.resume()
    first = again.step()
    assert first.loss == losses[first.step]
    again.close()


def test_a_streams_replica_that_dies_is_named_and_none_is_left_running(tmp_path: Path) -> None:
    how = {"schedule": "async", "max_lag": 1, "correction": "tis", "compact_finished": True, "checkpoint_every": 1}
    how |= {"rollout_replicas": 2, "rollout_routing": "least_tokens"}
    loop = small_loop(job(), tmp_path, **how)
    steps = [loop.step() for _ in range(3)]
    assert all(step.lag_max <= 1 for step in steps)
    assert {arrival.replica for step in steps for arrival in step.arrivals} == {0, 1}
    assert steps[-1].memory_peak_bytes > 6e8  # type: ignore[operator]  # three processes'
    assert isinstance(loop.source, Ahead)
    assert isinstance(loop.source.wires, ProcessWires)
    both = [end.process for end in loop.source.wires.ends]
    os.kill(both[1].pid or 0, signal.SIGKILL)
    with pytest.raises(TrialError, match=r"rollout replica 1 \(process \d+\) died with exit code -9 \(SIGKILL\)"):
        [loop.step() for _ in range(5)]
    done = loop.step_index
    loop.close()
    assert not any(process.is_alive() for process in both)
    again = small_loop(job(), tmp_path, make_source=inline_source, **how)
    assert again.resume() == ()
    step = again.step()
    again.close()
    assert step.step == done
    assert step.queue is not None
    assert step.queue.groups.is_conserved
    assert step.queue.groups.trained == 4 * (done + 1)
