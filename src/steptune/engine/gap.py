"""How far two log-prob tensors of the same tokens are apart: mismatch at equal weights, off-policyness by lag.

NaN anywhere under the mask makes the statistics NaN: no guard may pass on them.
"""

import torch
from torch import Tensor

from steptune.core.profile import GapStats, LagStats


def gap_stats(trainer: Tensor, rollout: Tensor, mask: Tensor) -> GapStats | None:
    """Return the gap over the masked tokens, or None if there are none (formulas: see `GapStats`)."""
    delta_C = trainer[mask].double() - rollout[mask].double()
    if delta_C.numel() == 0:
        return None
    k3_C = (torch.expm1(delta_C) - delta_C).clamp(min=0.0)  # never negative but for rounding near 0
    weight_C = torch.exp(delta_C - delta_C.max())  # shifted: its scale cancels in the effective sample size
    return GapStats(
        k1=float(-delta_C.mean()),
        k3=float(k3_C.mean()),
        mean_abs=float(delta_C.abs().mean()),
        max_abs=float(delta_C.abs().max()),
        mult_prob_error=float(delta_C.abs().exp().mean()),
        ess_frac=float(weight_C.sum() ** 2 / (delta_C.numel() * (weight_C**2).sum())),
        num_tokens=delta_C.numel(),
    )


def gap_by_lag(
    trainer_BT: Tensor, rollout_BT: Tensor, mask_BT: Tensor, versions_BT: Tensor, *, trainer_version_B: Tensor
) -> tuple[LagStats, ...]:
    """Return the gap of tokens by how many updates their weights were behind when they were trained, freshest first.

    ``trainer_version_B`` is the version of the weights that each row was trained on. Lag 0 is the mismatch of rollout
    and trainer at the same weights; larger lags add off-policyness to it.
    """
    lag_BT = trainer_version_B[:, None] - versions_BT
    found = list[LagStats]()
    for lag in lag_BT[mask_BT].unique().tolist():
        gap = gap_stats(trainer_BT, rollout_BT, mask_BT & (lag_BT == lag))
        if gap is not None:
            found.append(LagStats(lag=lag, gap=gap))
    return tuple(found)
