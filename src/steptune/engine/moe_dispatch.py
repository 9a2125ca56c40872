"""Three ways to bring tokens to their experts and back, equal in value.

::

    where     for every expert: which tokens chose it? gather, compute, add back   E host reads
    sort      one stable sort of all choices; every expert takes its slice         1 host read
    grouped   the same sort; one grouped product takes the offsets as a tensor      none

The surprise of `where`: taking expert e's weights by index makes the backward pass write a gradient of all
experts' size for each expert (3 to 5 times slower at 128 experts). The stack is unbound once instead, so the
gradients are stacked once; that is the fair baseline. The sort is stable, so tokens keep their order within an
expert. `sort` and `grouped` go back by a gather over the inverse permutation, never by atomic additions, so
they repeat themselves bit for bit. The grouped product was run on CPU (torch 2.13) only; some CUDA builds
miscompute it on transposed weights (pytorch issue 186365): `bench/gpu_check.sh` compares it first.

Shape letters: N positions, D model, E experts, k experts per token, F expert width, M = N * k choices.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

from steptune.engine.knobs import Dispatch
from steptune.engine.models.layers import gated
from steptune.engine.precision import at_least_float32


def mix_experts(
    x_ND: Tensor, expert_Nk: Tensor, gate_Nk: Tensor, gate_up_E2FD: Tensor, down_EDF: Tensor, *, dispatch: Dispatch
) -> Tensor:
    """Return the gate-weighted sum of each position's experts [N, D], added up in float32, in ``x``'s dtype."""
    if dispatch == "where":
        return _where(x_ND, expert_Nk, gate_Nk, gate_up_E2FD, down_EDF)
    order = sort_choices(expert_Nk, num_experts=len(down_EDF))
    x_MD = _ToExperts.apply(x_ND, order)
    compute = _slices if dispatch == "sort" else _grouped
    y_NkD = _ToTokens.apply(compute(x_MD, order, gate_up_E2FD, down_EDF), order)
    return (at_least_float32(y_NkD) * gate_Nk[..., None]).sum(1).to(x_ND.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceOrder:
    """All choices sorted by expert; choice m of position n stands at ``n * k + m`` before the sort."""

    sorted_M: Tensor
    """Choice that stands at each place of the sorted order."""
    place_M: Tensor
    """Place of each choice: the inverse permutation."""
    count_E: Tensor
    """Choices of each expert."""
    top_k: int


def sort_choices(expert_Nk: Tensor, num_experts: int) -> ChoiceOrder:
    """Return the stable order of choices by expert, without a host read (`bincount` would be one on CUDA)."""
    expert_M = expert_Nk.flatten()
    sorted_M = expert_M.argsort(stable=True)
    numbers_M = torch.arange(len(expert_M), device=expert_M.device)
    return ChoiceOrder(
        sorted_M=sorted_M,
        place_M=torch.empty_like(sorted_M).scatter_(0, sorted_M, numbers_M),
        count_E=expert_M.new_zeros(num_experts).scatter_add_(0, expert_M, torch.ones_like(expert_M)),
        top_k=expert_Nk.shape[1],
    )


def _where(x_ND: Tensor, expert_Nk: Tensor, gate_Nk: Tensor, gate_up_E2FD: Tensor, down_EDF: Tensor) -> Tensor:
    out_ND = torch.zeros_like(at_least_float32(x_ND))
    for expert, (gate_up, down) in enumerate(zip(gate_up_E2FD.unbind(0), down_EDF.unbind(0), strict=True)):
        token_C, rank_C = torch.where(expert_Nk == expert)
        if len(token_C):
            y_CD = F.linear(gated(F.linear(x_ND[token_C], gate_up)), down)
            out_ND.index_add_(0, token_C, at_least_float32(y_CD) * gate_Nk[token_C, rank_C, None])
    return out_ND.to(x_ND.dtype)


def _slices(x_MD: Tensor, order: ChoiceOrder, gate_up_E2FD: Tensor, down_EDF: Tensor) -> Tensor:
    parts = zip(x_MD.split(order.count_E.tolist()), gate_up_E2FD.unbind(0), down_EDF.unbind(0), strict=True)
    return torch.cat([F.linear(gated(F.linear(x, gate_up)), down) for x, gate_up, down in parts if len(x)])


def _grouped(x_MD: Tensor, order: ChoiceOrder, gate_up_E2FD: Tensor, down_EDF: Tensor) -> Tensor:
    end_E = order.count_E.cumsum(0).int()
    h_MF = gated(F.grouped_mm(x_MD, gate_up_E2FD.transpose(1, 2), offs=end_E))
    return F.grouped_mm(h_MF, down_EDF.transpose(1, 2), offs=end_E)


class _OrderCtx(FunctionCtx):
    order: ChoiceOrder


class _ToExperts(torch.autograd.Function):
    """Rows [N, D] copied into expert order [M, D]. Its gradient is a gather too, for the inverse is at hand."""

    @staticmethod
    def forward(ctx: _OrderCtx, x_ND: Tensor, order: ChoiceOrder) -> Tensor:
        ctx.order = order
        return x_ND.index_select(0, order.sorted_M // order.top_k)

    @staticmethod
    def backward(ctx: _OrderCtx, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        order = ctx.order
        return grad_outputs[0].index_select(0, order.place_M).unflatten(0, (-1, order.top_k)).sum(1), None


class _ToTokens(torch.autograd.Function):
    """Rows in expert order [M, D] back by position [N, k, D]; the gradient is the gather the other way."""

    @staticmethod
    def forward(ctx: _OrderCtx, y_MD: Tensor, order: ChoiceOrder) -> Tensor:
        ctx.order = order
        return y_MD.index_select(0, order.place_M).unflatten(0, (-1, order.top_k))

    @staticmethod
    def backward(ctx: _OrderCtx, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0].flatten(0, 1).index_select(0, ctx.order.sorted_M), None
