"""Number formats in which sums are taken: float32 at least, so that bf16 costs no more than its own rounding.

The surprise is float64: it stays as it is. Gradients are checked in it, which a plain `.float()` would spoil unseen.
"""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32, or in float64 where it is that already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
