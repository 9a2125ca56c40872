"""The loop: time is conserved, versions move, data is as old as the schedule says, work is repeatable."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from inline_worker import inline_one_step_off
from loop_cases import small_job, small_loop

from steptune.core.errors import TrialError
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.engine.supply.source import Source
from steptune.engine.supply.state import LoopState
from steptune.engine.trainer import Trainer

MAX_UNATTRIBUTED_S = 0.01
"""Largest time a step may spend outside every span: 3 % of the example's step of about a second, with room.
A time and not a share: the steps of this test take some 30 ms, and the bookkeeping between spans is fixed."""

PHASES = {"rollout", "reward", "advantage", "train", "weight_sync", "mode_switch"}
"""What a synchronous step is made of. All of them take part in every role's book, as work or as a wait."""


OFF: dict[str, Any] = {"schedule": "one_step_off", "correction": "tis", "make_source": inline_one_step_off}


def busy_and_wait_s(step: Observation, role: str) -> float:
    return sum(s.seconds for s in step.spans if s.role == role and "/" not in s.phase)


@pytest.mark.parametrize("handover", ["alias", "copy", "file"])
def test_every_role_of_a_synchronous_step_is_accounted_for(tmp_path: Path, handover: str) -> None:
    loop = small_loop(small_job(), tmp_path, handover=handover)
    steps = [loop.step() for _ in range(6)]
    loop.close()
    for role in ("trainer", "rollout", "environment"):
        outside_s = [step.wall_by_role_s[role] - busy_and_wait_s(step, role) for step in steps]
        assert min(outside_s) >= -1e-4
        # code outside every span is outside in all steps; a busy machine's interruptions are not
        assert min(outside_s) <= MAX_UNATTRIBUTED_S
        assert {s.phase for s in steps[-1].spans if s.role == role and "/" not in s.phase} == PHASES


def test_children_of_a_phase_fit_inside_it(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path)
    step = loop.step()
    loop.close()
    for parent in ("train", "rollout"):
        whole = sum(s.seconds for s in step.spans if s.phase == parent and s.kind == "busy")
        parts = sum(s.seconds for s in step.spans if s.phase.startswith(f"{parent}/"))
        assert 0 < parts <= whole


def test_the_version_counts_optimizer_updates(tmp_path: Path) -> None:
    loop = small_loop(small_job(num_updates=2), tmp_path, logprob_batch_tokens=256)
    versions = [loop.step().weight_version for _ in range(2)]
    loop.close()
    assert versions == [2, 4]


@pytest.mark.parametrize("layout", ["packed", "shared_prefix"])
def test_synchronous_data_has_no_lag_and_a_gap_of_rounding_only(tmp_path: Path, layout: str) -> None:
    loop = small_loop(small_job(), tmp_path, layout=layout, share_prefill=True, compact_finished=True)
    steps = [loop.step() for _ in range(3)]
    loop.close()
    assert [step.lag_max for step in steps] == [0, 0, 0]
    assert all(step.mismatch is not None and step.mismatch.k3 < 1e-9 for step in steps)


def test_a_rehearsed_one_step_off_run_makes_the_same_steps_on_fresher_data_at_most(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path, **OFF)
    steps = [loop.step(), loop.step()]
    loop.settle()
    loop.rehearse(1e-3)
    steps += [loop.step(), loop.step()]
    loop.close()
    assert [step.step for step in steps] == [0, 1, 2, 3]
    assert [step.weight_version for step in steps] == [1, 2, 3, 4]
    # the batch in flight after a rehearsal was sampled by the weights before it: the trainer's own
    assert [step.lag_max for step in steps] == [0, 1, 0, 1]


def test_one_step_off_data_is_one_update_old_and_its_mismatch_is_probed(tmp_path: Path) -> None:
    # random weights solve nothing; the overlong punishment makes rewards differ, so that weights move
    job = small_job(lr=1e-2, overlong_buffer_len=11)
    loop = small_loop(job, tmp_path, **OFF)
    steps = [loop.step() for _ in range(4)]
    loop.close()
    assert [step.lag_max for step in steps] == [0, 1, 1, 1]
    # lag 1 at a large learning rate differs visibly, the same weights on both sides do not
    assert all(step.off_policy[0].gap.k3 > 1e-7 for step in steps[1:])
    probed = [step.mismatch for step in steps if step.mismatch is not None]
    assert len(probed) == 3  # the first batch is fresh itself, the second was ordered before there was a probe
    assert all(gap.k3 < 1e-9 for gap in probed)


def test_the_lag_is_that_of_the_oldest_update_not_of_the_first(tmp_path: Path) -> None:
    lags = {}
    for schedule, how in (("sync", {}), ("one_step_off", OFF)):
        loop = small_loop(small_job(num_updates=2), tmp_path / schedule, logprob_batch_tokens=256, **how)
        lags[schedule] = [loop.step().lag_max for _ in range(3)]
        loop.close()
    # the second update of a step is one further from whatever the batch was sampled by
    assert lags == {"sync": [1, 1, 1], "one_step_off": [1, 3, 3]}


def test_one_step_off_trains_on_the_same_problems_in_the_same_order(tmp_path: Path) -> None:
    lengths = []
    for name, how in (("sync", {}), ("off", OFF)):
        loop = small_loop(small_job(), tmp_path / name, **how)
        for _ in range(3):
            loop.step()
        lengths.append(loop.lengths().prompt)
        loop.close()
    assert lengths[0] == lengths[1]


def test_the_same_seed_gives_the_same_losses(tmp_path: Path) -> None:
    losses = []
    for name in ("a", "b"):
        loop = small_loop(small_job(), tmp_path / name)
        losses.append([loop.step().loss for _ in range(3)])
        loop.close()
    assert losses[0] == losses[1]


@pytest.mark.parametrize("how", [{}, OFF], ids=["sync", "one_step_off"])
def test_forced_lengths_are_exact(tmp_path: Path, how: dict[str, Any]) -> None:
    forced = SampledLengths(prompt=(5,) * 32, completion=tuple(1 + i % 12 for i in range(32)), rollouts_per_step=16)
    loop = small_loop(small_job(), tmp_path, forced=forced, **how)
    for _ in range(3):
        loop.step()
    lengths = loop.lengths().completion
    loop.close()
    # two recorded steps are repeated in turn: 1 2 1
    assert lengths == forced.completion + forced.completion[:16]


def test_a_paused_run_has_nothing_in_flight(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path, **OFF)
    loop.step()
    loop.settle()
    loop.settle()
    assert not loop.source.remote.worker.has_answer()  # type: ignore[union-attr]
    assert loop.step().lag_max == 1
    loop.close()


def test_a_killed_worker_is_an_error_and_leaves_no_process(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path, schedule="one_step_off", correction="tis")
    loop.step()
    loop.settle()
    worker = loop.source.remote.worker.process  # type: ignore[union-attr]
    worker.kill()
    with pytest.raises(TrialError, match="died with exit code -9"):
        [loop.step() for _ in range(2)]
    loop.close()
    assert not worker.is_alive()


def test_a_loop_without_a_source_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, closed = list[LoopState](), list[Trainer]()

    def no_source(state: LoopState) -> Source:
        states.append(state)
        raise TrialError("no server")

    monkeypatch.setattr(Trainer, "close", lambda trainer: closed.append(trainer))
    with pytest.raises(TrialError, match="no server"):
        small_loop(small_job(), tmp_path, make_source=no_source)
    assert closed[-1] is states[0].trainer
    assert states[0].recorder.file is not None
    assert states[0].recorder.file.closed


def test_dynamic_sampling_prefers_groups_that_teach(tmp_path: Path) -> None:
    job = small_job(dynamic_sampling=True, max_sampling_rounds=3)
    loop = small_loop(job, tmp_path)
    step = loop.step()
    loop.close()
    # random weights solve nothing: three rounds are generated, 16 rollouts are trained on
    assert step.num_rollouts == 16
    assert step.decode_iterations > 12


def test_events_are_written_as_lines_of_json(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path)
    loop.step()
    loop.close()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    spans = [line for line in lines if line["event"] == "span"]
    assert {line["phase"] for line in spans} >= {"rollout", "rollout/decode", "reward", "train", "train/backward"}
    assert all(line["end_s"] >= line["start_s"] for line in spans)


def test_batches_are_captured_for_the_replay(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path, capture_batches=2)
    for _ in range(3):
        loop.step()
    loop.close()
    assert len(list((tmp_path / "batches").glob("*.pt"))) == 2


def test_a_pause_is_nobodys_waiting(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path, **OFF)
    loop.step()
    loop.settle()
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < 0.5:  # a pause that would show
        pass
    loop.step()
    step = loop.step()
    loop.close()
    # the batch of the second step after the pause was ordered by the first
    assert step.wall_by_role_s["rollout"] < 0.5
    assert busy_and_wait_s(step, "rollout") == pytest.approx(step.wall_by_role_s["rollout"], abs=0.01)


def test_rows_that_run_are_counted_as_they_drain(tmp_path: Path) -> None:
    forced = SampledLengths(prompt=(5,) * 16, completion=(1,) * 8 + (4,) * 8, rollouts_per_step=16)
    loop = small_loop(small_job(), tmp_path, forced=forced, compact_finished=True)
    loop.step()
    loop.close()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    running = [line["value"] for line in lines if line["event"] == "count" and line["name"] == "rows_running"]
    assert running == [16, 8]
