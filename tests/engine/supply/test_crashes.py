"""A worker that dies, weights that diverge, rewards that teach nothing: a clear end, nothing lost, no process left."""

import os
import signal
import sys
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from steptune.core.errors import TrialError
from steptune.core.job import JobSpec
from steptune.core.trial import Observation
from steptune.engine.checkpoint_file import newest_whole
from steptune.engine.loop import Loop
from steptune.engine.out_of_memory import is_out_of_memory
from steptune.engine.supply.one_step_off import OneStepOff
from steptune.engine.wire_end import last_words

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job, small_loop

OFF: dict[str, Any] = {"schedule": "one_step_off"}
AHEAD: dict[str, Any] = {"schedule": "async", "max_lag": 2, "compact_finished": True, "inflight_update": True}


def job(**algorithm: object) -> JobSpec:
    spec = small_job(lr=1e-2, overlong_buffer_len=11, **algorithm)
    return spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_staleness": 2})})


def assert_kept_bound_and_work(steps: list[Observation]) -> None:
    """Hold an undisturbed asynchronous run against its bound, its books and its clock."""
    assert all(step.lag_max <= 2 for step in steps)
    queues = [step.queue for step in steps if step.queue is not None]
    assert len(queues) == len(steps)
    assert all(queue.groups.is_conserved and queue.tokens.is_conserved for queue in queues)
    assert queues[-1].groups.trained == 4 * len(steps)
    assert queues[-1].groups.dropped == 0
    walls = sum(step.wall_by_role_s["rollout"] for step in steps)
    booked = sum(s.seconds for step in steps for s in step.spans if s.role == "rollout" and "/" not in s.phase)
    assert booked == pytest.approx(walls, abs=0.05)


def worker_of(loop: Loop) -> SpawnProcess:
    return (loop.source.remote.worker if isinstance(loop.source, OneStepOff) else loop.source.wires.ends[0]).process  # type: ignore[union-attr]


@pytest.mark.parametrize("how", [OFF, AHEAD], ids=["one_step_off", "async"])
def test_a_worker_killed_in_the_middle_of_a_real_run_is_named_with_its_last_words_and_nothing_is_lost(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    # starting a process that loads torch is most of what this takes: one does for all that is asked of a real run
    loop = small_loop(job(), tmp_path, correction="tis", checkpoint_every=2, **how)
    done = [loop.step() for _ in range(5)]
    loop.settle()
    done.append(loop.step())
    if how is AHEAD:
        assert_kept_bound_and_work(done)
    worker = worker_of(loop)
    os.kill(worker.pid or 0, signal.SIGKILL)
    with pytest.raises(TrialError, match=r"died with exit code -9 \(SIGKILL\), got last words: .*rollout") as error:
        [loop.step() for _ in range(5)]
    assert f"process {worker.pid}" in str(error.value)
    assert "hint:" in str(error.value)
    assert not is_out_of_memory(error.value), "a guess in a hint is no cause"
    loop.close()
    assert not worker.is_alive()
    # what was trained is on disk, and a new run goes on from it
    assert newest_whole(tmp_path / "state").path is not None
    again = small_loop(job(), tmp_path, correction="tis", checkpoint_every=2, **how)
    again.resume()
    step, worker = again.step(), worker_of(again)
    again.close()
    assert not worker.is_alive()
    assert step.step >= 6
    assert step.weight_version == step.step + 1


def test_last_words_are_the_end_of_the_log_and_never_an_error(tmp_path: Path) -> None:
    assert last_words(tmp_path / "none.txt") == "none"
    (tmp_path / "log.txt").write_text("one\ntwo\n\nthree\nfour\n")
    assert last_words(tmp_path / "log.txt") == "three | four"


def test_equal_rewards_move_no_weight_and_the_observation_says_so(tmp_path: Path) -> None:
    equal = small_job()
    equal = equal.model_copy(update={"workload": equal.workload.model_copy(update={"constant_reward": 1.0})})
    loop = small_loop(equal, tmp_path)
    before = {name: tensor.clone() for name, tensor in loop.model.state_dict().items()}
    step = loop.step()
    after = loop.model.state_dict()
    loop.close()
    assert step.zero_advantage_frac == 1.0
    assert step.grad_norm == 0.0
    assert step.loss == 0.0
    assert step.mixed_groups_frac == 0.0
    # AdamW without momentum yet and without weight decay
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_a_gradient_that_is_not_finite_ends_the_run_before_it_touches_a_weight(tmp_path: Path) -> None:
    loop = small_loop(job(), tmp_path, checkpoint_every=1)
    loop.step()
    before = {name: tensor.clone() for name, tensor in loop.model.state_dict().items()}
    first = next(loop.model.parameters())
    hook = first.register_hook(lambda gradient: gradient * torch.nan)
    with pytest.raises(TrialError, match="the gradient is not finite, so this update was not applied, got norm nan"):
        loop.step()
    hook.remove()
    after = loop.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert loop.step_index == 1
    assert loop.step().step == 1
    loop.close()
