"""Rollouts in int8: only the weights are rounded, the gap is seen, and a broken scale is caught by it."""

import pytest
import torch

from steptune.core.errors import HealthError, JobError
from steptune.core.job import DenseModel
from steptune.core.model import HybridMoEModel, MoEModel
from steptune.core.profile import GapStats
from steptune.engine import int8
from steptune.engine.decode_weights import PackedLinear, pack_weights
from steptune.engine.gap import gap_stats
from steptune.engine.int8 import Int8Product, check_int8, has_int8
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import prompt_batch
from steptune.engine.rollout import RolloutEngine

pytestmark = pytest.mark.skipif(
    not has_int8(), reason="this CPU adds products of bytes in 16 bits, where they overflow"
)

VOCAB, MAX_LEN = 40, 8
DENSE = DenseModel(num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, d_ff=48, attention_bias=True)
SPECS = {
    "dense": DENSE,
    "moe": MoEModel(
        num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, num_experts=4, d_expert=8, d_shared_expert=8
    ),
    "hybrid": HybridMoEModel(
        num_layers=4, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, num_experts=4, d_expert=8
    ),
}
MAX_MISMATCH_K3 = 1e-3
"""The guard's limit in the example job."""


def lively(spec: DenseModel, seed: int = 1) -> dict[str, torch.Tensor]:
    """Return fresh weights, larger: fresh ones give every token the same probability, whatever the arithmetic."""
    state = build_model(spec, VOCAB, seed=seed).state_dict()
    return {name: 6 * value if value.ndim > 1 else value for name, value in state.items()}


def engine_of(spec: DenseModel, dtype: str) -> RolloutEngine:
    knobs = EngineKnobs.model_validate({"rollout_dtype": dtype})
    engine = RolloutEngine(spec, knobs, vocab_size=VOCAB, pad_id=0, eos_id=2)
    engine.load(lively(spec), 0)
    return engine


def gap_of(spec: DenseModel, scale_factor: float = 1.0) -> GapStats:
    """Return the gap of a float32 rollout to the same tokens scored in int8, one matrix's scales off by a factor."""
    prompts = prompt_batch(["1+2=", "30+4="], range(2), group_size=4)
    batch, _ = engine_of(spec, "fp32").generate(prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=0)
    engine = engine_of(spec, "int8")
    engine._model.blocks[0].attention.out._product._scale_O.mul_(scale_factor)  # type: ignore[union-attr, operator]
    scored = engine.score(prompts, batch.completion_BT, batch.lengths_B, temperature=1.0)
    gap = gap_stats(batch.logprobs_BT, scored, batch.mask_BT)
    assert gap is not None
    return gap


def test_only_the_weight_is_rounded_to_eight_bits() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(24, 64), torch.randn(3, 5, 64) * torch.tensor([1e-4, 1.0, 1e4])[:, None, None]
    scale = weight.abs().amax(1, keepdim=True) / 127
    exact = x @ ((weight / scale).round() * scale).T
    # one step of the low byte is 1 / (127 * 254) of the row's largest, half of it at most is lost, 64 times over
    bound = x.abs().amax(-1, keepdim=True) / (127 * 254 * 2) * weight.abs().sum(1) * 1.1
    assert ((Int8Product(weight)(x, None) - exact).abs() <= bound).all()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    product, x, bias = Int8Product(torch.randn(24, 64)), torch.randn(6, 64), torch.randn(24)
    x[1] *= 1000
    alone = torch.cat([product(row[None], bias) for row in x])
    assert torch.equal(product(x, bias), alone)


def test_zeros_stay_zero_and_a_broken_row_stays_broken() -> None:
    weight = torch.randn(4, 16)
    weight[2] = 0
    product, x = Int8Product(weight), torch.ones(3, 16)
    x[0], x[1, 3] = 0.0, torch.nan
    out = product(x, None)
    assert (out[0] == 0).all()
    assert out[1].isnan().all()
    assert out[2, 2] == 0
    assert out[2].isfinite().all()


@pytest.mark.parametrize("family", SPECS)
def test_every_family_stays_inside_the_mismatch_guard_here(family: str) -> None:
    gap = gap_of(SPECS[family])
    assert 0 < gap.k3 < MAX_MISMATCH_K3
    assert gap.mean_abs > 1e-5  # it is another number format, and the gap says so


def test_a_broken_scale_is_caught_by_the_gap() -> None:
    assert not gap_of(DENSE, scale_factor=2.0).k3 < MAX_MISMATCH_K3


def test_recorded_logprobs_are_those_of_the_distribution_sampled_from() -> None:
    prompts = prompt_batch(["1+2=", "30+4="], range(2), group_size=4)
    engine = engine_of(DENSE, "int8")
    batch, _ = engine.generate(prompts, max_completion_len=MAX_LEN, temperature=0.9, seed=0)
    again = engine.score(prompts, batch.completion_BT, batch.lengths_B, temperature=0.9)
    assert torch.allclose(again, batch.logprobs_BT, atol=1e-5)


def test_the_matrices_are_packed_and_new_ones_replace_them() -> None:
    model = Transformer(DENSE, VOCAB)
    pack_weights(model, "int8")
    assert sum(isinstance(m, PackedLinear) for m in model.modules()) == 4 * DENSE.num_layers
    engine, x = engine_of(DENSE, "int8"), torch.ones(1, DENSE.d_model)
    before = engine._head(x)
    engine.load(lively(DENSE, seed=2), 1)
    assert not torch.equal(engine._head(x), before)


def test_weights_that_are_not_numbers_are_refused() -> None:
    engine, state = engine_of(DENSE, "int8"), lively(DENSE)
    state["blocks.0.ffn.down.weight"] = torch.full_like(state["blocks.0.ffn.down.weight"], torch.nan)
    engine.load(state, 1)
    with pytest.raises(HealthError, match="finite"):
        engine.generate(prompt_batch(["1+2="], range(1), group_size=2), max_completion_len=4, temperature=1.0, seed=0)


def test_a_machine_without_the_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match="device cuda"):
        check_int8(torch.device("cuda"))
    monkeypatch.setattr(int8, "has_int8", lambda: False)
    with pytest.raises(JobError, match="VNNI"):
        check_int8(torch.device("cpu"))
