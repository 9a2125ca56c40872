"""How far two results are apart, and how far they may be.

A difference is the largest one anywhere over the largest value of the reference: what a sum of many products can be
held to in any order of its terms. NaN or infinity anywhere makes it NaN, which is no larger and no smaller than any
tolerance, and passes nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FP32 = 1e-3
"""float32 on another device: other orders of summation, and kernels that multiply in three TF32 products. A missing
or doubled term is far above it."""

BF16 = 4e-2
"""One operator in bf16 against float32: 8 bits of mantissa are 0.4 % a rounding, and there are a few (CPU: 0.6 %)."""

BF16_MODEL = 0.1
"""A whole model under bf16 autocast: log-probs and gradients of the checked models were up to 3 % off on a CPU."""

SAME_DEVICE_FP32 = 1e-4
"""float32 on one device in another order (CPU: up to 1e-5)."""

EXACT = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """``Finding(difference=3e-6, tolerance=1e-3, note="scan against the CPU")``."""

    difference: float
    tolerance: float
    note: str


def apart(ours: Sequence[Tensor], reference: Sequence[Tensor]) -> float:
    """Return the largest difference of any pair, each over its reference's largest value."""
    return worst([_apart(a, b) for a, b in zip(ours, reference, strict=True)])


def worst(differences: Sequence[float]) -> float:
    """Return the largest, NaN if one is."""
    return math.nan if any(map(math.isnan, differences)) else max(differences, default=math.nan)


def _apart(ours: Tensor, reference: Tensor) -> float:
    assert ours.shape == reference.shape, f"{tuple(ours.shape)} against {tuple(reference.shape)}"
    a, b = ours.detach().double().cpu(), reference.detach().double().cpu()
    if not (bool(a.isfinite().all()) and bool(b.isfinite().all())):
        return math.nan
    scale = float(b.abs().max()) if b.numel() else 0.0
    difference = float((a - b).abs().max()) if b.numel() else 0.0
    return difference / scale if scale else difference


def moved(tensors: Sequence[Tensor], device: torch.device, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Return leaves that want a gradient on ``device``."""
    return [t.detach().to(device, dtype or t.dtype, copy=True).requires_grad_() for t in tensors]
