from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steptune.engine.host_reads import HostReads
from steptune.engine.knobs import Dispatch
from steptune.engine.moe_dispatch import mix_experts, sort_choices

DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)


def case(
    seed: int, n: int, e: int, k: int, dtype: torch.dtype = torch.float32, d: int = 8, f: int = 16
) -> list[Tensor]:
    """Return x, experts, gates, gate_up, down; with few positions some experts stay empty."""
    g = torch.Generator().manual_seed(seed)
    scores_NE = torch.randn(n, e, generator=g)
    x = torch.randn(n, d, generator=g)
    gate_up, down = torch.randn(e, 2 * f, d, generator=g) * 0.3, torch.randn(e, d, f, generator=g) * 0.3
    gate_Nk = scores_NE.softmax(-1).topk(k).values
    return [x.to(dtype), scores_NE.topk(k).indices, gate_Nk, gate_up.to(dtype), down.to(dtype)]


def run(inputs: list[Tensor], dispatch: Dispatch) -> list[Tensor]:
    """Return the output and the gradients of x, gates and both weights."""
    x, experts, *rest = inputs
    leaves = [t.clone().requires_grad_() for t in (x, *rest)]
    out = mix_experts(leaves[0], experts, *leaves[1:], dispatch=dispatch)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out.float() * weight).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def by_hand(x: Tensor, experts: Tensor, gates: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Every position on its own, as the formula says."""
    rows: list[Tensor] = []
    for n in range(len(x)):
        row = torch.zeros_like(x[0])
        for expert, weight in zip(experts[n].tolist(), gates[n], strict=True):
            gate, up = (gate_up[expert] @ x[n]).chunk(2)
            row = row + weight * (down[expert] @ (gate * gate.sigmoid() * up))
        rows.append(row)
    return torch.stack(rows)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 9),
    n=st.integers(1, 33),
    e=st.integers(1, 17),
    k=st.integers(1, 4),
    dispatch=st.sampled_from(DISPATCHES),
)
def test_every_dispatch_gives_the_gated_sum_of_the_chosen_experts(
    seed: int, n: int, e: int, k: int, dispatch: Dispatch
) -> None:
    inputs = case(seed, n, e, min(k, e))
    torch.testing.assert_close(run(inputs, dispatch)[0], by_hand(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dispatch", ["sort", "grouped"])
@pytest.mark.parametrize(("n", "e", "k"), [(64, 8, 2), (3, 16, 2), (1, 4, 4), (40, 1, 1)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_outputs_and_gradients_equal_the_where_loop(
    n: int, e: int, k: int, dtype: torch.dtype, tolerance: float, dispatch: Dispatch
) -> None:
    inputs = case(0, n, e, k, dtype)
    ours, wheres = run(inputs, dispatch), run(inputs, "where")
    assert len(ours) == len(wheres) == 5
    for our, where in zip(ours, wheres, strict=True):
        assert our.dtype is where.dtype
        scale = where.float().abs().max().item()
        torch.testing.assert_close(our, where, rtol=0, atol=tolerance * max(scale, 1e-3))


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_an_expert_nobody_chose_gets_a_gradient_of_zero(dispatch: Dispatch) -> None:
    inputs = case(0, 6, 8, 2)
    inputs[1] = torch.tensor([[1, 3]] * 6)  # experts 0, 2 and 4 to 7 are empty, the first and the last included
    *_, gate_up_grad, down_grad = run(inputs, dispatch)
    used_E = torch.tensor([False, True, False, True, False, False, False, False])
    assert torch.equal(gate_up_grad.flatten(1).abs().amax(1) > 0, used_E)
    assert torch.equal(down_grad.flatten(1).abs().amax(1) > 0, used_E)


def reads(dispatch: Dispatch, num_experts: int) -> HostReads:
    with HostReads() as counted:
        run(case(0, 32, num_experts, 2), dispatch)
    return counted


def test_grouped_reads_nothing_on_the_host_forward_and_backward() -> None:
    assert reads("grouped", 16).counts == {}


def test_sort_reads_once_and_where_once_per_expert() -> None:
    assert reads("sort", 16).counts == {"tolist": 1}
    assert reads("where", 16).counts == {"nonzero": 16}


@pytest.mark.parametrize(
    "read", [Tensor.item, Tensor.tolist, bool, int, float, Tensor.nonzero, Tensor.bincount, Tensor.unique]
)
def test_the_counter_sees_every_kind_of_host_read(read: type) -> None:
    with HostReads() as counted:
        read(torch.ones((), dtype=torch.int64) if read in (Tensor.item, bool, int, float) else torch.ones(1).long())
    assert counted.total >= 1


def test_the_order_is_stable_and_its_inverse_leads_back() -> None:
    order = sort_choices(torch.tensor([[2, 0], [0, 2], [2, 1]]), num_experts=4)
    assert order.sorted_M.tolist() == [1, 2, 5, 0, 3, 4]  # expert 0: choices 1, 2; expert 1: 5; expert 2: 0, 3, 4
    assert order.sorted_M[order.place_M].tolist() == list(range(6))
    assert order.count_E.tolist() == [2, 1, 3, 0]
