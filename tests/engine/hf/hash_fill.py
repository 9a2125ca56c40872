"""Weights that two programs can make without talking to each other: a hash of a tensor's name and of a position in it.

::

    x = crc32(name) + 2654435761 * position;  x ^= x >> 15;  x *= 2246822519;  x ^= x >> 13      (all modulo 2**32)
    value = 0.6 * (x / 2**32 - 0.5), and 1 more for scales of norms, so that nothing vanishes on the way
"""

import zlib

import torch
from torch import Tensor

MASK = 2**32 - 1


def filled(name: str, shape: list[int]) -> Tensor:
    """Return the float32 tensor of that name."""
    x = (zlib.crc32(name.encode()) + 2654435761 * torch.arange(torch.Size(shape).numel())) & MASK
    x = x ^ (x >> 15)
    # the product of two 32-bit numbers does not fit into a signed 64-bit one: multiply by halves
    x = (((x >> 16) * 2246822519 & MASK) * 65536 + (x & 65535) * 2246822519) & MASK
    x = x ^ (x >> 13)
    value = (x.double() / 2**32 - 0.5) * 0.6 + (1.0 if "norm" in name else 0.0)
    return value.float().reshape(shape)
