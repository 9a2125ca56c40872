"""The clipped policy loss, per token, and the weights that add tokens up. Pure tensor functions.

The surprise: aggregation is not a mean taken after the fact but a weight per token, computed over the whole
optimizer mini-batch. The loss of a micro-batch is ``sum(weight * token loss)``, so cutting a mini-batch into
micro-batches cannot change the gradient.

The values are pinned against TRL, verl and NeMo RL in tests/engine/test_algorithms_reference.py.
Shape letters: B rows, T completion token; the per-token functions take any shape.
"""

from typing import Literal

import torch
from torch import Tensor

from steptune.core.job import LossAggregation


def policy_token_loss(
    cur: Tensor, old: Tensor, advantage: Tensor, *, clip_low: float, clip_high: float, dual_clip: float | None
) -> Tensor:
    """Return the PPO loss of every token from its log-probs under current and old weights.

    ``dual_clip`` bounds the ratio from above where the advantage is negative, the one place the usual clip
    leaves open (https://arxiv.org/abs/1912.09729; TRL calls it delta, verl clip_ratio_c).
    """
    ratio = torch.exp(cur - old)
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    bounded = ratio if dual_clip is None else ratio.clamp(max=dual_clip)
    return -torch.min(bounded * advantage, clipped * advantage)


def kl_k3(cur: Tensor, ref: Tensor) -> Tensor:
    """Return the k3 estimate of KL(current || reference) of every token, in nats (http://joschu.net/blog/kl-approx.html)."""
    delta = ref - cur
    return torch.exp(delta) - delta - 1


def correction_weights(old: Tensor, rollout: Tensor, *, kind: Literal["none", "tis", "mis"], cap: float) -> Tensor:
    """Return the importance weight of every token, trainer over rollout probability at the old weights.

    ``tis`` truncates at ``cap``, ``mis`` drops tokens above it. A weight that is not finite drops its token.
    No gradient flows through the weights.
    """
    if kind == "none":
        return torch.ones_like(old)
    weight = torch.exp(old.detach() - rollout).nan_to_num(nan=0.0, posinf=0.0)
    if kind == "tis":
        return weight.clamp(max=cap)
    return torch.where(weight > cap, 0.0, weight)


def aggregation_weights(mask_BT: Tensor, *, how: LossAggregation, max_completion_len: int) -> Tensor:
    """Return float64 [B, T]: the weight of each token's loss, 0 outside the mask.

    ``mask_BT`` covers the whole optimizer mini-batch. Rows without any active token do not count as
    sequences. With no active token at all every weight is 0.
    """
    tokens_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1)
    num_sequences = mask_BT.any(dim=1).sum().clamp(min=1)
    match how:
        case LossAggregation.TOKEN_MEAN:
            divisor = mask_BT.sum().clamp(min=1)
        case LossAggregation.SEQ_MEAN_TOKEN_MEAN:
            divisor = tokens_B1 * num_sequences
        case LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM:
            divisor = num_sequences * max_completion_len
    return mask_BT.double() / divisor
