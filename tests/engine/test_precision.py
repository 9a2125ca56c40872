"""Which number format sums are taken in, layer by layer."""

import warnings
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, ModelSpec, MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.knobs import Dispatch
from steptune.engine.micro_batch import Run
from steptune.engine.model import build_model
from steptune.engine.models.layers import RMSNorm, gated, rotary
from steptune.engine.moe_dispatch import mix_experts
from steptune.engine.precision import at_least_float32
from steptune.engine.recur import RunsRecur

CPU = torch.device("cpu")
DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)

DENSE = DenseModel(num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, d_ff=48, qk_norm=True)
MOE = MoEModel(num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, num_experts=4, top_k=2, d_expert=16)
LINEAR = {"linear_key_heads": 2, "linear_value_heads": 4, "linear_key_dim": 8, "linear_value_dim": 6}
HYBRID = HybridModel(num_layers=4, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, d_ff=32, **LINEAR)
HYBRID_MOE = HybridMoEModel(
    num_layers=4, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, num_experts=4, top_k=2, d_expert=16, **LINEAR
)


def loss_and_gradient(spec: ModelSpec) -> tuple[Tensor, Tensor]:
    """Return the loss of one packed forward, and the whole gradient."""
    model, runs = build_model(spec, 40, seed=0), [Run(7, 1), Run(4, 1)]
    tokens, positions = torch.arange(3, 14), torch.cat((torch.arange(7), torch.arange(4)))
    hidden = model.hidden(tokens, positions, Context(attend=attend_runs(runs), recur=RunsRecur(runs, CPU)))
    loss = -model.logits(hidden).float().log_softmax(-1)[:, 5].sum()
    loss.backward()
    return loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("spec", [DENSE, MOE, HYBRID, HYBRID_MOE], ids=lambda spec: spec.kind)
def test_bf16_trains_every_family_near_float32_and_without_a_warning(spec: ModelSpec) -> None:
    loss, gradient = loss_and_gradient(spec)
    with warnings.catch_warnings(record=True) as caught, torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("always")
        bf16_loss, bf16_gradient = loss_and_gradient(spec)
    assert not caught
    # 8 bits of mantissa are 0.4 %; measured 0.3 to 0.5 % of the gradient
    assert (bf16_loss - loss).abs() < 2e-3 * loss.abs()
    assert (bf16_gradient - gradient).norm() < 2e-2 * gradient.norm()


def test_a_norm_of_a_bf16_product_is_taken_in_the_format_of_its_weights() -> None:
    norm, x = RMSNorm(8, eps=1e-3), torch.randn(5, 8).bfloat16() * 0.05
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    expected = x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-3).rsqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected)
    assert norm.bfloat16()(x).dtype is torch.bfloat16


def test_float64_stays_float64() -> None:
    assert at_least_float32(torch.zeros(1, dtype=torch.float64)).dtype is torch.float64
    assert at_least_float32(torch.zeros(1, dtype=torch.bfloat16)).dtype is torch.float32


def test_far_positions_are_rotated_as_exactly_in_bf16_as_its_own_rounding() -> None:
    # bf16 holds whole numbers up to 256 only: 1001 would be the angle of 1000
    tables = rotary(torch.tensor([1001]), DENSE, torch.bfloat16)
    for table, exact in zip(tables, rotary(torch.tensor([1001]), DENSE, torch.float32), strict=True):
        assert torch.equal(table, exact.bfloat16())


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_what_experts_give_is_weighted_and_added_in_float32(dispatch: Dispatch) -> None:
    torch.manual_seed(0)
    x, gate_up, down = (torch.randn(shape).bfloat16() for shape in ((6, 8), (4, 32, 8), (4, 8, 16)))
    experts, gates = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 3]]), torch.rand(6, 2)
    each = [[F.linear(gated(F.linear(row, gate_up[e])), down[e]).float() for e in chosen]
            for row, chosen in zip(x, experts.tolist(), strict=True)]  # fmt: skip
    exact = torch.stack([gates[n, 0] * each[n][0] + gates[n, 1] * each[n][1] for n in range(6)])
    got = mix_experts(x, experts, gates, gate_up, down, dispatch=dispatch)
    # one rounding at the end is half a unit of 2^-8; weighting in bf16 rounds each gate as well
    assert ((got.float() - exact).norm() / exact.norm()) < 2e-3


@pytest.mark.parametrize("dispatch", ["where", "sort"])  # the grouped product has no float64
def test_gradients_of_expert_dispatch_are_the_numerical_ones(dispatch: Dispatch) -> None:
    torch.manual_seed(0)
    experts = torch.tensor([[0, 2], [2, 0], [3, 2]])
    shapes = ((3, 2), (3, 2), (4, 4, 2), (4, 2, 2))
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda x, *rest: mix_experts(x, experts, *rest, dispatch=dispatch), leaves)
