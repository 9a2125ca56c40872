"""Rollouts that say nothing and rewards that tell nothing apart, through whole steps of every family and layout."""

from pathlib import Path
from typing import Any

import pytest
import torch
from loop_cases import small_job, small_loop

from steptune.core.errors import TrialError
from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, ModelSpec, MoEModel
from steptune.engine.loop import Loop
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.produce import PAD, TOKENIZER
from steptune.engine.types import RolloutBatch, RolloutTrace

SHAPE: dict[str, Any] = {"num_layers": 2, "d_model": 16, "num_heads": 2, "num_kv_heads": 1, "head_dim": 8}
LINEAR: dict[str, Any] = {
    "full_attention_every": 2,
    **{"linear_key_heads": 1, "linear_value_heads": 2, "linear_key_dim": 8, "linear_value_dim": 8},
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "top_k": 2, "d_expert": 8}
FAMILIES: list[ModelSpec] = [
    DenseModel(**SHAPE, d_ff=16),
    MoEModel(**SHAPE, **EXPERTS),
    HybridModel(**SHAPE, **LINEAR, d_ff=16),
    HybridMoEModel(**SHAPE, **LINEAR, **EXPERTS, d_shared_expert=8),
]
LAYOUTS = ("padded", "sorted", "packed", "shared_prefix")
CASES = [
    (spec, layout) for spec in FAMILIES for layout in LAYOUTS if layout != "shared_prefix" or can_share_prompts(spec)
]


def loop_of(spec: ModelSpec, folder: Path, *, constant_reward: float | None = None, **knobs: object) -> Loop:
    # a length-shaped reward: what random weights say is never right
    job = small_job(lr=1e-2, overlong_buffer_len=11)
    workload = job.workload.model_copy(update={"constant_reward": constant_reward})
    return small_loop(job.model_copy(update={"model": spec, "workload": workload}), folder, **knobs)


def weights_of(loop: Loop) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in loop.model.state_dict().items()}


def say(loop: Loop, *, rows: slice, length: int) -> None:
    """Make these rows of every rollout end at once: with the end of sequence alone, or with nothing at all."""
    engine = loop.source.own.engine  # type: ignore[union-attr]
    generate = engine.generate

    def shortened(*args: Any, **kwargs: Any) -> tuple[RolloutBatch, RolloutTrace]:
        batch, trace = generate(*args, **kwargs)
        batch.lengths_B[rows] = length
        batch.completion_BT[rows, 0] = TOKENIZER.eos_id
        hidden_BT = ~batch.mask_BT
        batch.completion_BT[hidden_BT], batch.logprobs_BT[hidden_BT], batch.versions_BT[hidden_BT] = PAD, 0.0, -1
        batch.finished_B[rows] = True
        return batch, trace

    engine.generate = shortened


@pytest.mark.parametrize(("spec", "layout"), CASES, ids=lambda case: case if isinstance(case, str) else case.kind)
def test_rows_that_end_at_once_are_trained_like_any_other(tmp_path: Path, spec: ModelSpec, layout: str) -> None:
    loop = loop_of(spec, tmp_path, layout=layout, micro_batch_tokens=64)
    say(loop, rows=slice(0, 16, 3), length=1)
    before = weights_of(loop)
    made = [loop.step(), loop.step()]
    after = weights_of(loop)
    loop.close()
    assert all(o.loss is not None and torch.isfinite(torch.tensor(o.loss)) for o in made)
    assert all(o.grad_norm is not None and o.grad_norm > 0 for o in made)
    assert loop.lengths().completion[:16:3] == (1,) * 6
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert all(bool(tensor.isfinite().all()) for tensor in after.values())


@pytest.mark.parametrize(("spec", "layout"), CASES, ids=lambda case: case if isinstance(case, str) else case.kind)
def test_a_batch_in_which_every_row_ends_at_once_teaches_nothing(tmp_path: Path, spec: ModelSpec, layout: str) -> None:
    loop = loop_of(spec, tmp_path, layout=layout)
    say(loop, rows=slice(None), length=1)
    before = weights_of(loop)
    step = loop.step()
    after = weights_of(loop)
    loop.close()
    assert (step.grad_norm, step.zero_advantage_frac) == (0.0, 1.0)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_without_a_token_is_refused_and_the_run_goes_on_from_where_it_was(tmp_path: Path, layout: str) -> None:
    loop = loop_of(FAMILIES[0], tmp_path, layout=layout)
    generate = loop.source.own.engine.generate  # type: ignore[union-attr]
    say(loop, rows=slice(5, 6), length=0)
    before = weights_of(loop)
    with pytest.raises(TrialError, match="row 5 of the rollout batch has an empty completion, got 0 tokens; allowed"):
        loop.step()
    assert loop.step_index == 0
    after = weights_of(loop)
    assert all(torch.equal(before[name], after[name]) for name in before)
    loop.source.own.engine.generate = generate  # type: ignore[union-attr]
    assert loop.step().step == 0
    loop.close()


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("spec", FAMILIES, ids=lambda spec: spec.kind)
def test_equal_rewards_move_no_weight_of_any_family(tmp_path: Path, spec: ModelSpec, scale: str) -> None:
    job = small_job(scale_advantage=scale)
    workload = job.workload.model_copy(update={"constant_reward": 1.0})
    loop = small_loop(job.model_copy(update={"model": spec, "workload": workload}), tmp_path)
    before = weights_of(loop)
    step = loop.step()
    after = weights_of(loop)
    loop.close()
    assert (step.loss, step.grad_norm, step.zero_advantage_frac, step.mixed_groups_frac) == (0.0, 0.0, 1.0, 0.0)
    assert all(torch.equal(before[name], after[name]) for name in before)
