"""Log-probs of the completion tokens off the hidden states, whole or in tiles of positions.

With a large vocabulary the logits dwarf everything else a step holds: 4,096 completion tokens times 248,320
entries are 4 GB in float32, several times over with the softmax and its gradient. In tiles, only one tile's
logits exist at a time, forward and backward; the price is that the head's product is computed once more in
the backward pass. The surprise: the weight's gradient is added up in place, tile by tile. Checkpointing each tile
instead made a full-size gradient per tile: at 5,000 entries of width 576 it held more memory than no tiles at all
(35 against 14 MB) and took 4 times as long.

Shape letters: C completion tokens, c those of one tile, D model, V vocab.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from steptune.engine.context import RunRegion, run_as_is
from steptune.engine.precision import at_least_float32


def token_logprobs(
    hidden_CD: Tensor,
    weight_VD: Tensor,
    target_C: Tensor,
    *,
    temperature: float,
    tile_tokens: int | None,
    run: RunRegion = run_as_is,
) -> Tensor:
    """Return float32 [C] log-probs of ``target_C`` under the softmax of logits / ``temperature``.

    ``tile_tokens`` bounds the positions whose logits exist at once; None computes them all together, as ``run`` runs a
    region. Tiles run as they stand: a gradient that is added up in place is no graph.
    """
    if tile_tokens is not None and tile_tokens < len(target_C):
        return _TiledLogprobs.apply(hidden_CD, weight_VD, target_C, temperature, tile_tokens)  # type: ignore[no-any-return]
    return run(whole_logprobs, hidden_CD, weight_VD, target_C, temperature)


def whole_logprobs(hidden_CD: Tensor, weight_VD: Tensor, target_C: Tensor, temperature: float) -> Tensor:
    """Return `token_logprobs` with all logits at once: the region at the end of a model."""
    scaled_CV = at_least_float32(F.linear(hidden_CD, weight_VD)) / temperature
    return -F.cross_entropy(scaled_CV, target_C, reduction="none")


class _TiledLogprobs(torch.autograd.Function):
    """`token_logprobs` with one tile's logits at a time. Saves hidden states, weight and one number per token."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own signature
        hidden_CD: Tensor,
        weight_VD: Tensor,
        target_C: Tensor,
        temperature: float,
        tile_tokens: int,
    ) -> Tensor:
        device = hidden_CD.device.type
        # the backward pass runs outside autocast and must multiply in the same format
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_CD.dtype
        cast_VD, norms, logprobs = weight_VD.to(dtype), list[Tensor](), list[Tensor]()
        for hidden_cD, target_c in zip(hidden_CD.split(tile_tokens), target_C.split(tile_tokens), strict=True):
            scaled_cV = at_least_float32(F.linear(hidden_cD.to(dtype), cast_VD)).div_(temperature)
            norms.append(scaled_cV.logsumexp(-1))
            logprobs.append(scaled_cV.gather(1, target_c[:, None])[:, 0] - norms[-1])
        ctx.save_for_backward(hidden_CD, weight_VD, target_C, torch.cat(norms))
        ctx.temperature, ctx.tile_tokens, ctx.dtype = temperature, tile_tokens, dtype
        return torch.cat(logprobs)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  the decorator loses the names
        ctx: Any,  # noqa: ANN401
        *grad_outputs: Any,  # noqa: ANN401
    ) -> tuple[Tensor | None, ...]:
        (grad_C,) = grad_outputs
        hidden_CD, weight_VD, target_C, norm_C = ctx.saved_tensors
        wants_weight, cast_VD = ctx.needs_input_grad[1], weight_VD.to(ctx.dtype)
        hidden_grad_CD = torch.empty_like(hidden_CD)
        weight_grad_VD = torch.zeros_like(weight_VD) if wants_weight else None
        parts = (x.split(ctx.tile_tokens) for x in (hidden_CD, target_C, norm_C, grad_C, hidden_grad_CD))
        for hidden_cD, target_c, norm_c, grad_c, out_cD in zip(*parts, strict=True):
            hidden_cD = hidden_cD.to(ctx.dtype)
            logits_cV = F.linear(hidden_cD, cast_VD)
            grad_cV = _logits_gradient(logits_cV, target_c, norm_c, grad_c, ctx.temperature).to(ctx.dtype)
            out_cD.copy_(grad_cV @ cast_VD)
            if weight_grad_VD is None:
                continue
            if weight_grad_VD.dtype == ctx.dtype:
                weight_grad_VD.addmm_(grad_cV.T, hidden_cD)
            else:
                weight_grad_VD.add_(grad_cV.T @ hidden_cD)
        return hidden_grad_CD, weight_grad_VD, None, None, None


def _logits_gradient(logits_cV: Tensor, target_c: Tensor, norm_c: Tensor, grad_c: Tensor, temperature: float) -> Tensor:
    """Return grad / temperature * (one-hot of the target - softmax), written over the logits where they are float."""
    weight_c1 = (grad_c / temperature)[:, None]
    probability_cV = at_least_float32(logits_cV).div_(temperature).sub_(norm_c[:, None]).exp_()
    return probability_cV.mul_(-weight_c1).scatter_add_(1, target_c[:, None], weight_c1)
