"""Weights laid out for decoding are the same weights."""

import pytest
import torch

from steptune.core.job import DenseModel
from steptune.core.model import HybridMoEModel, MoEModel
from steptune.engine import decode_weights
from steptune.engine.context import Context
from steptune.engine.decode_weights import MIN_PARAMETERS, Head, PackedLinear, Packing, order_pays, pack_weights
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import prompt_batch
from steptune.engine.rollout import RolloutEngine

DENSE = DenseModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, d_ff=24, attention_bias=True)
SPECS = {
    "dense": DENSE,
    "untied": DENSE.model_copy(update={"tie_embeddings": False}),
    "moe": MoEModel(
        num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=4, d_expert=8, d_shared_expert=8
    ),
    "hybrid": HybridMoEModel(
        num_layers=4, d_model=16, num_heads=2, num_kv_heads=1, head_dim=8, num_experts=4, d_expert=8
    ),
}
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}
VOCAB = 300


def ordered(spec: DenseModel, dtype: torch.dtype, packing: Packing = "ordered") -> tuple[Transformer, Head]:
    model = Transformer(spec, VOCAB).to(dtype)
    pack_weights(model, packing)
    return model, Head(model, packing)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("family", SPECS)
def test_every_layer_and_the_head_give_what_the_plain_model_gives(family: str, dtype: str) -> None:
    spec, number = SPECS[family], FORMATS[dtype]
    source = build_model(spec, VOCAB, seed=1)
    plain = Transformer(spec, VOCAB).to(number)
    plain.load_state_dict(source.state_dict())
    model, head = ordered(spec, number)
    model.load_state_dict(source.state_dict())
    head.refresh()
    tolerance = 1e-5 if number == torch.float32 else 0.05
    for ours, theirs in zip(model.modules(), plain.modules(), strict=True):
        if isinstance(ours, PackedLinear) or (isinstance(ours, torch.nn.Linear) and ours is not model.head):
            x = torch.randn(3, theirs.weight.shape[1]).to(number)
            assert torch.allclose(ours(x), theirs(x), atol=tolerance)
    hidden = torch.randn(3, spec.d_model).to(number)
    assert torch.allclose(head(hidden), plain.logits(hidden), atol=tolerance)


@pytest.mark.parametrize("dtype", FORMATS)
def test_new_weights_replace_old_ones_biases_included(dtype: str) -> None:
    model, head = ordered(DENSE, FORMATS[dtype])
    hidden = torch.ones(1, DENSE.d_model).to(FORMATS[dtype])
    tokens, attend = torch.tensor([3]), Context(attend=lambda layer, q, k, v: q)
    seen = []
    for seed in (1, 2):
        state = build_model(DENSE, VOCAB, seed=seed).state_dict()
        state["blocks.0.attention.out.bias"] = torch.full((16,), float(seed))
        model.load_state_dict(state)
        head.refresh()
        seen.append((head(hidden), model.hidden(tokens, torch.tensor([0]), attend)))
    assert not torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[0][1], seen[1][1])


def test_float32_matrices_keep_their_shape_and_change_their_strides() -> None:
    model, _ = ordered(DENSE, torch.float32)
    weight = model.blocks[0].ffn.down.weight
    assert weight.shape == (16, 24)
    assert weight.stride() == (1, 16)
    model.load_state_dict(build_model(DENSE, VOCAB, seed=1).state_dict())
    assert weight.stride() == (1, 16)


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_missing_or_misshapen_weight_is_refused(dtype: str) -> None:
    model, _ = ordered(DENSE, FORMATS[dtype])
    name = "blocks.1.ffn.down.weight"
    state = build_model(DENSE, VOCAB, seed=1).state_dict()
    with pytest.raises(RuntimeError, match=name):
        model.load_state_dict({key: value for key, value in state.items() if key != name})
    with pytest.raises(RuntimeError, match=name):
        model.load_state_dict({**state, name: torch.zeros(2, 2)})
    with pytest.raises(RuntimeError, match="bias"):
        model.load_state_dict({k: v for k, v in state.items() if k != "blocks.1.attention.out.bias"})


def test_an_unordered_head_reads_the_models_own_weight() -> None:
    model = Transformer(DENSE, VOCAB)
    head = Head(model, "none")
    with torch.no_grad():
        model.embed.weight.fill_(2.0)
    assert (head(torch.ones(1, 16)) == 32).all()  # no refresh needed


def test_the_order_is_for_models_that_are_large_enough() -> None:
    with torch.device("meta"):
        large = Transformer(DENSE.model_copy(update={"d_model": 512}), 40_000)
    assert not order_pays(large)  # not on the CPU
    assert order_pays(large.to_empty(device="cpu"))
    assert not order_pays(Transformer(DENSE, VOCAB))


def test_a_large_engine_samples_what_a_plain_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    state = build_model(DENSE, VOCAB, seed=1).state_dict()
    prompts = prompt_batch(["1+2=", "30+4="], range(2), group_size=3)
    rollouts = []
    for least in (MIN_PARAMETERS, 0):
        monkeypatch.setattr(decode_weights, "MIN_PARAMETERS", least)
        engine = RolloutEngine(DENSE, EngineKnobs(), vocab_size=VOCAB, pad_id=0, eos_id=2)
        engine.load(state, 0)
        rollouts.append(engine.generate(prompts, max_completion_len=6, temperature=1.0, seed=0)[0])
    assert torch.equal(rollouts[0].completion_BT, rollouts[1].completion_BT)
    assert torch.allclose(rollouts[0].logprobs_BT, rollouts[1].logprobs_BT, atol=1e-5)
