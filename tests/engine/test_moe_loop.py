"""A mixture of experts runs wherever the dense model does: SFT, rollout, training, and the forecaster's counts."""

from pathlib import Path

import pytest
import torch
from loop_cases import small_job, small_loop

from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import JobSpec, SftSpec
from steptune.core.model import MoEModel
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.sft import sft_train

TINY = MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=4, top_k=2, d_expert=8)
LENGTHS = SampledLengths(prompt=(7,) * 16, completion=tuple(1 + i % 12 for i in range(16)), rollouts_per_step=16)
JOB = small_job().model_copy(update={"model": TINY, "sft": SftSpec(num_steps=3, batch_size=8)})


@pytest.mark.parametrize("dispatch", ["where", "sort", "grouped"])
def test_rollout_and_trainer_of_a_mixture_agree_up_to_rounding(tmp_path: Path, dispatch: str) -> None:
    loop = small_loop(JOB, tmp_path, moe_dispatch=dispatch, layout="packed", share_prefill=True, compact_finished=True)
    steps = [loop.step() for _ in range(2)]
    loop.close()
    for step in steps:
        assert step.mismatch is not None
        assert step.mismatch.k3 < 1e-6


def test_every_dispatch_trains_to_the_same_losses(tmp_path: Path) -> None:
    losses: list[list[float]] = []
    for dispatch in ("where", "sort", "grouped"):
        (tmp_path / dispatch).mkdir()
        loop = small_loop(JOB, tmp_path / dispatch, forced=LENGTHS, moe_dispatch=dispatch)
        losses.append([loop.step().loss for _ in range(2)])
        loop.close()
    assert losses[0][0] is not None
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert losses[2] == pytest.approx(losses[0], abs=1e-5)


def test_sft_trains_every_expert_and_the_router() -> None:
    torch.set_num_threads(1)
    before, after = sft_train(JOB.model_copy(update={"sft": SftSpec(num_steps=0)})), sft_train(JOB)
    for name in ("router.weight", "gate_up", "down"):
        changed = (after[f"blocks.0.ffn.{name}"] - before[f"blocks.0.ffn.{name}"]).abs().flatten(1).amax(1)
        assert (changed > 0).all()


def test_the_tuner_sees_the_dispatch_only_where_there_are_experts() -> None:
    def values(job: JobSpec) -> tuple[object, ...]:
        return next(spec.values for spec in knob_specs(job) if spec.name == "moe_dispatch")

    assert values(JOB) == ("where", "sort", "grouped")
    assert values(small_job()) == ("grouped",)


def test_planned_memory_counts_every_choice_of_an_expert() -> None:
    def memory(model: MoEModel) -> float:
        counter = WorkCounter(job=JOB.model_copy(update={"model": model}), lengths=LENGTHS)
        return counter.planned(EngineKnobs()).memory_bytes or 0.0

    one, two, three = (memory(TINY.model_copy(update={"top_k": k})) for k in (1, 2, 3))
    assert two - one == three - two > 0
