"""The second rank as a real process: it dies, it hangs, it leaves; what was trained stays and goes on exactly."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from steptune.core.errors import TrialError
from steptune.core.job import JobSpec

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job, small_loop
from trainer_cases import flat_params

RANKS = {"train_ranks": 2, "layout": "packed", "micro_batch_tokens": 100}


def job() -> JobSpec:
    spec = small_job(lr=1e-2, overlong_buffer_len=11)
    return spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_staleness": 2})})


def test_a_killed_rank_is_named_with_its_phase_and_a_resumed_run_repeats_every_loss(tmp_path: Path) -> None:
    loop = small_loop(job(), tmp_path, checkpoint_every=2, **RANKS)
    rank = loop.state.trainer.second.worker.process  # type: ignore[union-attr]
    losses = [loop.step().loss for _ in range(4)]
    before = flat_params(loop.model)
    os.kill(rank.pid, signal.SIGKILL)
    with pytest.raises(
        TrialError, match=r"trainer rank 1 \(process \d+\) died in `train` of step 4, update 0"
    ) as error:
        loop.step()
    assert "exit code -9 (SIGKILL)" in str(error.value)
    assert "step 3: GradientOrder" in str(error.value)  # its last words
    assert torch.equal(flat_params(loop.model), before)
    loop.close()
    assert not rank.is_alive()
    (tmp_path / "state" / "step-000004.state").unlink()  # as if the machine had gone down two steps earlier
    again = small_loop(job(), tmp_path, checkpoint_every=2, **RANKS)
    assert again.resume() == ()
    assert [again.step().loss for _ in range(2)] == losses[2:]
    worker = again.state.trainer.second.worker  # type: ignore[union-attr]
    rank = worker.process  # type: ignore[union-attr]
    os.kill(rank.pid, signal.SIGSTOP)
    with pytest.raises(TrialError, match="gave no answer"):
        worker.send_plain(bytes(10**7), 0.01)  # more than a pipe holds: nobody reads it
    again.close()
    assert not rank.is_alive()


def test_a_rank_that_hangs_is_stopped_beside_an_asynchronous_rollout(tmp_path: Path) -> None:
    loop = small_loop(job(), tmp_path, schedule="async", max_lag=2, compact_finished=True, correction="tis", **RANKS)
    steps = [loop.step() for _ in range(3)]
    assert [step.weight_version for step in steps] == [1, 2, 3]
    # both ranks' memory and the rollout's are in the figure
    assert all(step.memory_peak_bytes is not None and step.memory_peak_bytes > 3e8 for step in steps)
    for step in steps:
        train = {s.phase: s.seconds for s in step.spans if s.role == "trainer" and s.phase.startswith("train")}
        assert train["train"] >= sum(seconds for phase, seconds in train.items() if phase != "train")
    second, worker = loop.state.trainer.second, loop.source.wires.ends[0].process  # type: ignore[union-attr]
    assert second is not None
    rank = second.worker.process  # type: ignore[union-attr]
    second.patience_s = 0.01
    os.kill(rank.pid, signal.SIGSTOP)
    with pytest.raises(TrialError, match=r"trainer rank 1 .* gave no answer in `train` of step 3, update 0 and was"):
        loop.step()
    assert loop.state.version == 3
    loop.close()
    assert not rank.is_alive()
    assert not worker.is_alive()
