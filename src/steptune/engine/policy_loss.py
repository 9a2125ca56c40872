"""The clipped policy loss, per token, and the weights that add tokens up. Pure tensor functions.

The surprise: aggregation is not a mean taken after the fact but a weight per token, computed over the whole
optimizer mini-batch. The loss of a micro-batch is ``sum(weight * token loss)``, so cutting a mini-batch into
micro-batches cannot change the gradient.

The values are pinned against TRL, verl and NeMo RL in tests/engine/test_algorithms_reference.py.
Shape letters: B rows, T completion token; the per-token functions take any shape.
"""

import torch
from torch import Tensor

from steptune.core.job import KlForm, LossAggregation


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


def kl_estimate(cur: Tensor, ref: Tensor, form: KlForm) -> Tensor:
    """Return an estimate of KL(current || reference) of every token, in nats (http://joschu.net/blog/kl-approx.html).

    Its gradient is that of the formula, without a score term: what the three frameworks do by default. In the mean
    over tokens of the current policy, with d = cur - ref, that gradient is

    ``k1``   d: unbiased value; the gradient of every token is 1, in the mean nothing but noise
    ``k2``   d^2 / 2: biased value; the gradient d is that of KL(current || reference)
    ``k3``   exp(-d) + d - 1: unbiased, never negative; the gradient 1 - exp(-d) is that of KL(reference || current)
    ``abs``  |d|: no estimate of the divergence but a distance; the gradient is only a sign
    """
    delta = cur - ref
    match form:
        case "k1":
            return delta
        case "k2":
            return 0.5 * delta.square()
        case "k3":
            return torch.exp(-delta) + delta - 1
        case "abs":
            return delta.abs()


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
