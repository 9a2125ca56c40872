"""Runs with several replicas, all in the test's own process: the same completions, and every fault is seen."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.core.errors import HealthError, JobError
from steptune.core.job import JobSpec
from steptune.core.model import HybridMoEModel, MoEModel
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement
from steptune.engine.divergence import divergence
from steptune.engine.int8 import has_int8
from steptune.engine.loop import Loop
from steptune.engine.supply.in_process import InProcess
from steptune.engine.supply.source import Source
from steptune.engine.supply.state import LoopState
from steptune.guard.weights_arrived import check_weights_arrived

sys.path.insert(0, str(Path(__file__).parents[1]))
from inline_worker import InlineReplica, inline_one_step_off, inline_sync
from loop_cases import small_job, small_loop

ALONE = {"rollout_concurrency": 1}
"""One row at a time, its prompt with it: nobody decodes beside it, so nothing rounds otherwise."""

SUPPLIES: dict[str, tuple[Callable[[LoopState], Source], dict[str, Any]]] = {
    "sync": (inline_sync, {}),
    "one step off": (inline_one_step_off, {"schedule": "one_step_off", "correction": "tis"}),
}


def job_of(**algorithm: object) -> JobSpec:
    job = small_job(lr=1e-2, overlong_buffer_len=11, **algorithm)
    devices = job.devices.model_copy(update={"num_cores": 4})
    limits = job.limits.model_copy(update={"max_staleness": 1})
    return job.model_copy(update={"devices": devices, "limits": limits})


def loop_of(folder: Path, num_replicas: int, supply: str = "sync", job: JobSpec | None = None, **knobs: Any) -> Loop:
    source, settings = SUPPLIES[supply]
    every = knobs.pop("checkpoint_every", None)
    return small_loop(
        job or job_of(),
        folder,
        make_source=source,
        checkpoint_every=every,
        **{**settings, **knobs, "rollout_replicas": num_replicas},
    )


def steps_of(loop: Loop, num_steps: int) -> list[Observation]:
    steps = [loop.step() for _ in range(num_steps)]
    loop.close()
    return steps


@pytest.mark.parametrize("supply", SUPPLIES)
def test_where_nobody_decodes_beside_a_row_replicas_repeat_every_loss(tmp_path: Path, supply: str) -> None:
    job = job_of()
    one = steps_of(loop_of(tmp_path / "one", 1, supply, job, **ALONE), 4)
    assert all(step.grad_norm > 0 for step in one)
    for num, routing in ((2, "round_robin"), (3, "least_tokens")):
        several = steps_of(loop_of(tmp_path / str(num), num, supply, job, rollout_routing=routing, **ALONE), 4)
        assert [step.loss for step in several] == [step.loss for step in one]
        assert [step.completion_tokens for step in several] == [step.completion_tokens for step in one]
        assert [step.grad_norm for step in several] == [step.grad_norm for step in one]
        assert all({a.replica for a in step.arrivals} == set(range(num)) for step in several)
        assert check_weights_arrived(several, num_replicas=num).judgement is Judgement.PASS


FORMATS = ["fp32", "bf16", pytest.param("int8", marks=pytest.mark.skipif(not has_int8(), reason="needs VNNI"))]


@pytest.mark.parametrize("rollout_dtype", FORMATS)
@pytest.mark.parametrize("family", ["dense", "moe", "hybrid"])
def test_in_any_number_format_only_rounding_tells_two_replicas_from_one(
    tmp_path: Path, family: str, rollout_dtype: str
) -> None:
    models = {
        "moe": MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=4, top_k=2, d_expert=8),
        "hybrid": HybridMoEModel(
            num_layers=4, d_model=32, num_heads=4, num_kv_heads=2, head_dim=8, num_experts=4, d_expert=16
        ),
    }
    job = job_of() if family == "dense" else job_of().model_copy(update={"model": models[family]})
    how = {"rollout_dtype": rollout_dtype, "compact_finished": True, "share_prefill": True}
    batches = []
    for num in (1, 2):
        loop = loop_of(tmp_path / str(num), num, job=job, **how)
        assert isinstance(loop.source, InProcess)
        batches.append(loop.source.next().produced.batch)
        loop.close()
    one, two = batches
    assert torch.equal(one.prompts.tokens_BP, two.prompts.tokens_BP)
    apart = divergence(one, two)
    assert apart.num_rows == 16
    # 16 rows of untrained models: one that parts has met a probability that rounding carries over its uniform
    assert len(apart.first_tokens) <= (0 if rollout_dtype == "fp32" else 4)
    assert apart.max_logprob_gap < (1e-5 if rollout_dtype == "fp32" else 0.05)


@pytest.mark.parametrize("supply", SUPPLIES)
def test_a_resumed_run_with_replicas_repeats_every_loss(tmp_path: Path, supply: str) -> None:
    how = {"compact_finished": True, "share_prefill": True, "checkpoint_every": 2, "rollout_routing": "least_tokens"}
    losses = [step.loss for step in steps_of(loop_of(tmp_path, 2, supply, **how), 5)]
    (tmp_path / "state" / "step-000004.state").unlink()  # as if the machine had gone down two steps earlier
    again = loop_of(tmp_path, 2, supply, **how)
    assert again.resume() == ()
    assert [step.loss for step in steps_of(again, 3)] == losses[2:]


def second(loop: Loop) -> InlineReplica:
    assert isinstance(loop.source, InProcess)
    assert loop.source.own.replicas is not None
    end = loop.source.own.replicas.others[0].end
    assert isinstance(end, InlineReplica)
    return end


@pytest.mark.parametrize("fault", ["stale", "half"])
def test_a_replica_that_misses_a_hand_over_or_part_of_it_is_caught_by_its_number(tmp_path: Path, fault: str) -> None:
    loop = loop_of(tmp_path, 2)
    engine = second(loop).replica.engine
    load = engine.load

    def faulty(state: Mapping[str, Tensor], version: int) -> None:
        if version != 3:
            load(state, version)
        elif fault == "half":
            old = engine.plain_tensors()
            load({name: old[name].clone() if "ffn" in name else tensor for name, tensor in state.items()}, version)

    engine.load = faulty  # type: ignore[method-assign]
    steps = steps_of(loop, 5)
    verdict = check_weights_arrived(steps, num_replicas=2)
    assert verdict.judgement is Judgement.FAIL
    said = {"stale": "replica 1 holds version 2, the trainer 3", "half": "replica 1, version 3: 6 of"}
    assert said[fault] in verdict.because
    if fault == "stale":  # and every token says honestly who sampled it
        assert steps[3].lag_max == 1
        assert all(step.lag_max == 0 for step in (*steps[:3], steps[4]))


def test_a_batch_given_up_is_not_taken_for_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = loop_of(tmp_path, 2, **ALONE)
    losses = [step.loss for step in steps_of(loop_of(tmp_path / "plain", 1, **ALONE), 2)]
    first = loop.step().loss
    with monkeypatch.context() as patch:

        def fails(*_args: object, **_how: object) -> None:
            raise HealthError("the weights have diverged")

        assert isinstance(loop.source, InProcess)
        patch.setattr(loop.source.own.engine, "generate", fails)
        with pytest.raises(HealthError):
            loop.step()
    assert [first, loop.step().loss] == losses
    end = second(loop)
    loop.close()
    assert end.is_closed


def test_what_replicas_add_is_booked(tmp_path: Path) -> None:
    loop = loop_of(tmp_path, 3)
    step = loop.step()
    loop.close()
    phases = {span.phase: span.seconds for span in step.spans if span.role == "rollout"}
    assert {"rollout", "rollout/order", "rollout/replica_wait", "rollout/prefill", "rollout/decode"} <= set(phases)
    assert phases["rollout"] >= sum(seconds for phase, seconds in phases.items() if phase.startswith("rollout/"))
    for replica in (1, 2):
        lines = (tmp_path / f"events.rollout-{replica}.jsonl").read_text().splitlines()
        assert all(f'"rank": {replica}' in line for line in lines)
        assert any('"phase": "rollout/decode"' in line for line in lines)
    assert '"rollout_imbalance"' in (tmp_path / "events.jsonl").read_text()


REFUSED: dict[str, dict[str, Any]] = {
    "handover=alias cannot reach them": {"handover": "alias"},
    "must not be a race": {"partial_rollout": 1.5, "max_lag": 1, "compact_finished": True},
    "more threads than the 4 cores": {"rollout_threads": 3},
    "need as many prompts_per_step": {
        "rollout_replicas": 5,
        "rollout_cores": 2.5,
        "schedule": "one_step_off",
        "train_threads": 2,
    },
    "rollout_threads must be each replica's share": {"rollout_cores": 3.0, "schedule": "one_step_off"},
    "needs rollout_replicas above 1": {"rollout_replicas": 1, "rollout_routing": "least_tokens"},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_replicas_cannot_follow_is_refused_before_anything_starts(tmp_path: Path, reason: str) -> None:
    how = {"correction": "tis", "rollout_replicas": 2, **REFUSED[reason]}
    with pytest.raises(JobError, match=reason):
        small_loop(job_of(), tmp_path, **how)
    assert list(tmp_path.iterdir()) == []
