"""A prompt computed once trains as if every completion had its own."""

import dataclasses

import pytest
import torch
from torch import Tensor
from trainer_cases import GROUP, VOCAB, flat_params, scored_batch, small_model, small_trainer

from steptune.core.job import LossAggregation
from steptune.core.model import MoEModel
from steptune.engine.attention import attend_runs, key_index
from steptune.engine.events import Recorder
from steptune.engine.head import token_logprobs
from steptune.engine.inputs import build_inputs, groups_share_prompts, join_rows
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.plan import Layout, plan_batch

SHARED = (Run(3, 1), Run(2, 2), Run(4, 1, prefix=3), Run(2, 3, prefix=2))
PROMPT_OF = (0, 2, 1, 2)
"""Prompts at 0..2, 3..4 and 5..6; completions at 7..10 (prompt 0), 11..12 (2), 13..14 (1), 15..16 (2)."""


def weighted_loss(
    dtype: torch.dtype, layout: Layout, token_budget: int, model: Transformer | None = None
) -> tuple[Tensor, Tensor]:
    """Return a loss with one weight per token and its whole gradient."""
    model, batch = (model or small_model()).to(dtype), scored_batch().rollout
    joined = join_rows(batch, pad_id=0)
    plan = plan_batch(
        batch.prompts.lengths_B.tolist(),
        batch.lengths_B.tolist(),
        layout=layout,
        token_budget=token_budget,
        max_completion_len=9,
        group_size=GROUP,
    )
    weight_BT = torch.linspace(-1, 1, batch.completion_BT.numel(), dtype=dtype)
    total = torch.zeros((), dtype=dtype)
    for micro in plan.micro_batches:
        inputs = build_inputs(joined, micro)
        context = dataclasses.replace(inputs.context, moe_dispatch="sort")
        hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, context)
        logprob_C = token_logprobs(
            hidden_ND[inputs.predict_C], model.head_weight, inputs.target_C, temperature=1.0, tile_tokens=None
        )
        loss = (logprob_C * weight_BT[inputs.flat_C]).sum()
        loss.backward()
        total += loss.detach()
    return total, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("token_budget", [1, 40, 10_000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
def test_loss_and_gradient_equal_those_of_rows_with_their_own_prompts(
    token_budget: int, dtype: torch.dtype, tolerance: float
) -> None:
    loss, gradient = weighted_loss(dtype, "shared_prefix", token_budget)
    own_loss, own_gradient = weighted_loss(dtype, "packed", 10_000)
    assert (loss - own_loss).abs() <= tolerance * own_loss.abs()
    assert (gradient - own_gradient).norm() <= tolerance * own_gradient.norm()


def test_experts_see_a_shared_prompt_once_and_train_the_same() -> None:
    # float64 against near-ties of the router, whose own softmax stays in float32
    spec = MoEModel(num_layers=2, d_model=16, num_heads=4, num_kv_heads=2, num_experts=4, top_k=2, d_expert=8)
    (loss, gradient), (own_loss, own_gradient) = (
        weighted_loss(torch.float64, layout, 10_000, build_model(spec, VOCAB, seed=1))
        for layout in ("shared_prefix", "packed")
    )
    assert (loss - own_loss).abs() <= 1e-13 * own_loss.abs()
    assert (gradient - own_gradient).norm() <= 1e-9 * own_gradient.norm()


@pytest.mark.parametrize("how", list(LossAggregation))
def test_the_trainers_step_is_the_same(how: LossAggregation) -> None:
    changes = list[Tensor]()
    for layout in ("packed", "shared_prefix"):
        knobs = EngineKnobs(layout=layout, micro_batch_tokens=60, logprob_batch_tokens=50)
        trainer = small_trainer(knobs=knobs, loss_aggregation=how, kl_coef=0.1, reference=small_model(4))
        trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=1.0)  # type: ignore[assignment]
        before, recorder = flat_params(trainer.model), Recorder()
        trainer.update(trainer.prepare(scored_batch(), recorder), weights_version=5, recorder=recorder)
        changes.append(flat_params(trainer.model) - before)
    assert (changes[1] - changes[0]).norm() <= 1e-5 * changes[0].norm()  # a difference of parameters of size 1


def test_the_counts_of_a_step_are_the_plans() -> None:
    batch = scored_batch()
    rollout, recorder = batch.rollout, Recorder()
    trainer = small_trainer(knobs=EngineKnobs(layout="shared_prefix", micro_batch_tokens=10_000))
    stats = trainer.update(trainer.prepare(batch, recorder), weights_version=5, recorder=recorder)
    # one prompt a group, every completion
    assert stats.padded_tokens == int(rollout.prompts.lengths_B[::GROUP].sum() + rollout.lengths_B.sum())
    assert stats.active_tokens == stats.padded_tokens


def test_keys_are_the_prompt_and_then_the_row_itself() -> None:
    assert key_index(SHARED, PROMPT_OF).tolist() == [
        *(0, 1, 2, 3, 4, 5, 6),
        *(0, 1, 2, 7, 8, 9, 10),
        *(5, 6, 11, 12),
        *(3, 4, 13, 14),
        *(5, 6, 15, 16),
    ]


def test_a_completion_sees_its_prompt_and_its_own_past_and_nothing_else() -> None:
    q, k, v = (torch.randn(17, heads, 4, requires_grad=True) for heads in (4, 2, 2))
    out = attend_runs(SHARED, PROMPT_OF)(0, q, k, v)
    seen = {11: [5, 6, 11], 12: [5, 6, 11, 12], 8: [0, 1, 2, 7, 8], 4: [3, 4], 15: [5, 6, 15]}
    for position, expected in seen.items():
        (grad,) = torch.autograd.grad(out[position].sum(), v, retain_graph=True)
        assert grad.abs().sum(dim=(1, 2)).nonzero().flatten().tolist() == expected


def test_a_prompt_collects_the_gradient_of_all_its_completions() -> None:
    v = torch.randn(17, 2, 4, requires_grad=True)
    out = attend_runs(SHARED, PROMPT_OF)(0, torch.randn(17, 4, 4), torch.randn(17, 2, 4), v)
    (both,) = torch.autograd.grad(out[[11, 12, 15, 16]].sum(), v, retain_graph=True)
    (first,) = torch.autograd.grad(out[[11, 12]].sum(), v, retain_graph=True)
    (second,) = torch.autograd.grad(out[[15, 16]].sum(), v)
    torch.testing.assert_close(both, first + second)
    assert (first[5:7].abs().sum(), second[5:7].abs().sum()) > (torch.tensor(0.0), torch.tensor(0.0))


def test_the_prompts_last_position_predicts_every_first_token() -> None:
    batch = scored_batch(num_rows=GROUP).rollout
    plan = plan_batch(
        batch.prompts.lengths_B.tolist(),
        batch.lengths_B.tolist(),
        layout="shared_prefix",
        token_budget=10_000,
        max_completion_len=9,
        group_size=GROUP,
    )
    inputs = build_inputs(join_rows(batch, 0), plan.micro_batches[0])
    last_of_prompt = int(batch.prompts.lengths_B[0]) - 1
    assert (inputs.predict_C == last_of_prompt).sum() == GROUP
    assert inputs.target_C[inputs.predict_C == last_of_prompt].sort()[0].tolist() == sorted(
        batch.completion_BT[:, 0].tolist()
    )


def test_groups_with_two_prompts_are_noticed() -> None:
    prompts = scored_batch().rollout.prompts
    assert groups_share_prompts(prompts)
    prompts.tokens_BP[GROUP + 1, 0] += 1
    assert not groups_share_prompts(prompts)
    batch = dataclasses.replace(scored_batch().rollout, prompts=prompts)
    with pytest.raises(AssertionError, match="two prompts"):
        small_trainer(knobs=EngineKnobs(layout="shared_prefix")).logprobs(batch, 100)


def test_groups_with_two_prompt_lengths_are_noticed_even_where_the_padding_hides_it() -> None:
    prompts = scored_batch().rollout.prompts
    lengths_B = prompts.lengths_B.clone()
    lengths_B[GROUP + 1] -= 1
    assert not groups_share_prompts(dataclasses.replace(prompts, lengths_B=lengths_B))


def test_gradients_over_a_shared_prompt_are_the_numerical_ones() -> None:
    runs = (Run(2, 1), Run(1, 1), Run(2, 1, prefix=2), Run(1, 2, prefix=1))
    attend = attend_runs(runs, (0, 1, 1))
    leaves = [torch.randn(7, heads, 2, dtype=torch.float64, requires_grad=True) for heads in (2, 1, 1)]
    assert torch.autograd.gradcheck(lambda q, k, v: attend(0, q, k, v), leaves)
