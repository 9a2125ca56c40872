"""What caches of packed-batch metadata get wrong, one test each. There is no cache here; that is why they pass."""

import dataclasses
import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from trainer_cases import GROUP, SPEC, scored_batch, small_model, small_trainer

from steptune.engine import inputs as inputs_module
from steptune.engine.attention import attend_runs
from steptune.engine.context import Attend, Context
from steptune.engine.events import Recorder
from steptune.engine.inputs import MicroInputs, build_inputs, join_rows
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import MicroBatch, Run
from steptune.engine.plan import Layout, plan_batch
from steptune.engine.types import RolloutBatch

LAYOUTS: tuple[Layout, ...] = ("padded", "sorted", "packed", "shared_prefix")


def micro_inputs(
    batch: RolloutBatch, layout: Layout, token_budget: int = 10_000
) -> list[tuple[MicroBatch, MicroInputs]]:
    plan = plan_batch(
        batch.prompts.lengths_B.tolist(),
        batch.lengths_B.tolist(),
        layout=layout,
        token_budget=token_budget,
        max_completion_len=9,
        group_size=GROUP,
    )
    joined = join_rows(batch, 0)
    return [(micro, build_inputs(joined, micro)) for micro in plan.micro_batches]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recompute", [False, True])
def test_metadata_is_built_once_a_micro_batch_and_not_once_a_layer(
    layout: Layout, recompute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, used = list[int](), list[int]()

    def counting(runs: tuple[Run, ...], *args: object, **kwargs: object) -> Attend:
        attend = attend_runs(runs, *args, **kwargs)  # type: ignore[arg-type]
        built.append(1)

        def counted(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            used.append(layer)
            return attend(layer, q, k, v)

        return counted

    monkeypatch.setattr(inputs_module, "attend_runs", counting)
    trainer = small_trainer(knobs=EngineKnobs(layout=layout, micro_batch_tokens=60, recompute=recompute))
    recorder = Recorder()
    stats = trainer.update(trainer.prepare(scored_batch(), recorder), weights_version=5, recorder=recorder)
    num_micros = stats.num_micro_batches
    assert num_micros > 1
    assert trainer.gradients.num_plans_built == 1
    assert len(built) == trainer.gradients.num_inputs_built == num_micros
    assert len(used) == SPEC.num_layers * num_micros * (2 if recompute else 1)


def test_a_lengths_buffer_changed_in_place_gives_the_next_batch_its_own_layout() -> None:
    batch, fresh = scored_batch(seed=0).rollout, scored_batch(seed=1).rollout
    trainer = small_trainer(knobs=EngineKnobs(layout="packed"))
    trainer.logprobs(batch, 1000)  # whatever could be remembered of the first batch, by identity, is now
    for name in ("completion_BT", "lengths_B"):
        getattr(batch, name).copy_(getattr(fresh, name))
    for name in ("tokens_BP", "lengths_B"):
        getattr(batch.prompts, name).copy_(getattr(fresh.prompts, name))
    expected_BT = small_trainer(knobs=EngineKnobs(layout="packed")).logprobs(fresh, 1000)
    assert torch.equal(trainer.logprobs(batch, 1000), expected_BT)


def test_inputs_already_built_do_not_follow_a_buffer_changed_later() -> None:
    batch = scored_batch().rollout
    (_, before), (_, kept) = micro_inputs(batch, "packed")[0], micro_inputs(batch, "packed")[0]
    batch.lengths_B.fill_(1)
    batch.prompts.lengths_B.fill_(1)
    model = small_model()
    assert torch.equal(hidden(model, kept), hidden(model, before))
    assert torch.equal(kept.predict_C, before.predict_C)


def hidden(model: torch.nn.Module, inputs: MicroInputs) -> Tensor:
    return model.hidden(inputs.tokens_N, inputs.positions_N, inputs.context)  # type: ignore[operator, no-any-return]


def test_layouts_may_alternate_layer_by_layer() -> None:
    # two forwards interleaved, as a policy and its reference or a pipeline's micro-batches are
    contexts = [Context(attend=attend_runs(runs)) for runs in ((Run(4, 3),), (Run(5, 2), Run(2, 1)))]
    qkv = torch.randn(12, 3, 2, 4)
    alone = [[c.attend(layer, *qkv.unbind(1)) for layer in range(3)] for c in contexts]
    turns = [[c.attend(layer, *qkv.unbind(1)) for c in contexts] for layer in range(3)]
    for number in range(2):
        for layer in range(3):
            assert torch.equal(alone[number][layer], turns[layer][number])


@given(seed=st.integers(0, 50), layout=st.sampled_from(LAYOUTS), budget=st.integers(1, 200))
def test_every_token_is_predicted_by_the_token_before_it_in_its_own_row(seed: int, layout: Layout, budget: int) -> None:
    batch = scored_batch(seed=seed).rollout
    joined, num_targets = join_rows(batch, 0), 0
    for _, inputs in micro_inputs(batch, layout, budget):
        token_C = inputs.flat_C % batch.completion_BT.shape[1]
        prompt_C = batch.prompts.lengths_B[inputs.row_C]
        assert torch.equal(inputs.positions_N[inputs.predict_C], prompt_C - 1 + token_C)
        before_C = joined.tokens_BL[inputs.row_C, prompt_C - 1 + token_C]
        assert torch.equal(inputs.tokens_N[inputs.predict_C], before_C)
        assert torch.equal(inputs.target_C, joined.tokens_BL[inputs.row_C, prompt_C + token_C])
        num_targets += len(inputs.target_C)
    assert num_targets == int(batch.lengths_B.sum())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_neither_a_rows_end_nor_padding_predicts_anything(layout: Layout) -> None:
    batch = scored_batch().rollout
    ((micro, inputs),) = micro_inputs(batch, layout)
    widths = [run.width for run in micro.runs for _ in range(run.num_rows)]
    start_R = torch.tensor(widths).cumsum(0) - torch.tensor(widths)
    own = start_R[len(micro.prompts) :]
    for row, start in zip(micro.rows, own.tolist(), strict=True):
        prompt = 0 if micro.prompts else int(batch.prompts.lengths_B[row])
        last = start + prompt + int(batch.lengths_B[row]) - 1
        assert last not in inputs.predict_C.tolist()


def test_nothing_of_a_batch_outlives_its_inputs() -> None:
    ((_, inputs),) = micro_inputs(scored_batch().rollout, "shared_prefix")
    hidden(small_model(), inputs).sum().backward()
    attend = weakref.ref(inputs.context.attend)
    del inputs
    gc.collect()
    assert attend() is None


def test_a_context_is_immutable() -> None:
    context = Context(attend=attend_runs((Run(4, 3),)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.attend = attend_runs((Run(3, 4),))  # type: ignore[misc]
