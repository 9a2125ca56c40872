"""Importance-sampling correction: what a token's loss is multiplied by because the rollout drew it, not the trainer.

The ratio is the trainer's probability at the old weights over the rollout's; no gradient flows through it.

====================  ===================================================  =======================================
kind                  a token's weight                                     known as
====================  ===================================================  =======================================
``tis``               its ratio, at most ``cap``                           token truncation (TRL, verl, NeMo RL)
``mis``               its ratio, 0 above ``cap``                           token mask (TRL)
``band``              its ratio, 0 outside ``floor`` to ``cap``            IcePop (https://arxiv.org/abs/2510.18855)
``sequence_tis``      the product of its row's ratios, at most ``cap``     sequence truncation (TRL, verl)
``sequence_mis``      the product of its row's ratios, 0 above ``cap``     masked importance sampling (TRL)
====================  ===================================================  =======================================

The surprise: masked tokens still count where losses are averaged, as in all three frameworks; a mask makes the step
smaller, it does not make the remaining tokens louder. Shape letters: C completion tokens of whole rows.
"""

import torch
from torch import Tensor

from steptune.core.job import CorrectionKind

SEQUENCE_KINDS = frozenset({"sequence_tis", "sequence_mis"})
"""Kinds that weigh a row by the product over all its tokens."""


def correction_weights(
    old_C: Tensor, rollout_C: Tensor, row_C: Tensor, *, kind: CorrectionKind, cap: float, floor: float
) -> Tensor:
    """Return the weight of every token; ``row_C`` numbers the row of each, and whole rows are given.

    A weight that is not finite drops its token, or its row.
    """
    if kind == "none":
        return torch.ones_like(old_C)
    log_ratio_C = old_C.detach() - rollout_C
    if kind in SEQUENCE_KINDS:
        log_ratio_C = _row_sums(log_ratio_C, row_C)
    weight_C = log_ratio_C.exp().nan_to_num(nan=0.0, posinf=0.0)
    match kind:
        case "tis" | "sequence_tis":
            return weight_C.clamp(max=cap)
        case "mis" | "sequence_mis":
            return weight_C.masked_fill(weight_C > cap, 0.0)
        case "band":
            return weight_C.masked_fill((weight_C > cap) | (weight_C < floor), 0.0)


def _row_sums(x_C: Tensor, row_C: Tensor) -> Tensor:
    """Return for every token the sum over its row."""
    num_rows = int(row_C.max()) + 1 if len(row_C) else 0
    return x_C.new_zeros(num_rows).index_add_(0, row_C, x_C)[row_C]
