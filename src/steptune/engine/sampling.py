"""Token sampling whose noise belongs to the token, not to the batch it was decoded in.

The uniform of a token is a hash of (seed, problem, sample, position). So every setting of concurrency,
prefill and compaction samples the same tokens, and two arms of a trial differ by their knobs alone.

Shape letters: n running rows, V vocab.
"""

import torch
from torch import Tensor

GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - 2**64
"""SplitMix64's increment as a signed integer (Steele, Lea and Flood 2014, https://doi.org/10.1145/2660193.2660195)."""

MIX_1, MIX_2 = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
"""Multipliers of SplitMix64's finaliser, as signed integers; torch's int64 product wraps like uint64's."""

DRAW_BLOCK = 256
"""Tokens per block of a draw: about the root of a vocabulary of 49,152, where both searches are equally long."""

BELOW_ONE = 1 - 2.0**-22
"""Keeps a target inside its block: of what a float32 can hold, a few steps below 1."""

UNIFORM_BITS = 22
"""Bits of a uniform. With 22 bits and half-cell centres, u * total < total holds in float32 for every total."""


def noise_keys(seed: int | Tensor, problem_n: Tensor, sample_n: Tensor) -> Tensor:
    """Return int64 keys [n], one noise stream per (seed, problem, sample); the seed may be each row's own."""
    seed_key = _mix(torch.as_tensor(seed, dtype=torch.int64, device=problem_n.device) + GOLDEN_GAMMA)
    problem_key_n = _mix(seed_key + GOLDEN_GAMMA + problem_n)
    return _mix(problem_key_n + GOLDEN_GAMMA + sample_n)


def uniforms(key_n: Tensor, position_n: Tensor) -> Tensor:
    """Return float32 uniforms [n] in the open interval (0, 1) for a position of each stream."""
    bits_n = _shift_right(_mix(key_n + (position_n + 1) * GOLDEN_GAMMA), 64 - UNIFORM_BITS)
    return (bits_n.float() + 0.5) * 2.0**-UNIFORM_BITS


def draw(weights_nV: Tensor, uniform_n: Tensor) -> Tensor:
    """Return token ids [n] by inverse CDF; rows need not add up to 1, and a zero is never drawn.

    The CDF is never written out: sums of blocks say which block the token is in, and only that block is added up.
    """
    vocab_size, sum_nK = weights_nV.shape[1], _block_sums(weights_nV)
    cdf_nK = sum_nK.cumsum(-1)
    target_n1 = uniform_n[:, None] * cdf_nK[:, -1:]
    # the bound matters to NaN only: no block is passed that has the target below its end
    block_n1 = (cdf_nK <= target_n1).sum(-1, keepdim=True).clamp_(max=sum_nK.shape[1] - 1)
    token_nb = block_n1 * DRAW_BLOCK + torch.arange(DRAW_BLOCK, device=weights_nV.device)
    weight_nb = weights_nV.gather(1, token_nb.clamp(max=vocab_size - 1)).masked_fill_(token_nb >= vocab_size, 0.0)
    cdf_nb = weight_nb.cumsum(-1)
    rest_n1 = target_n1 - (cdf_nK - sum_nK).gather(1, block_n1)
    # rounding may put the target at or behind the end of its block, or before the start: it stays inside
    rest_n1 = rest_n1.clamp_(min=0.0).minimum(cdf_nb[:, -1:] * BELOW_ONE)
    return block_n1[:, 0] * DRAW_BLOCK + (cdf_nb <= rest_n1).sum(-1)


def _block_sums(weights_nV: Tensor) -> Tensor:
    """Return the sums of blocks of `DRAW_BLOCK` columns, the last one possibly shorter."""
    whole = weights_nV.shape[1] // DRAW_BLOCK * DRAW_BLOCK
    sum_nK = weights_nV[:, :whole].unflatten(1, (-1, DRAW_BLOCK)).sum(-1)
    return sum_nK if whole == weights_nV.shape[1] else torch.cat((sum_nK, weights_nV[:, whole:].sum(-1, True)), 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * MIX_1
    x = (x ^ _shift_right(x, 27)) * MIX_2
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's `>>` copies the sign bit, which the mask removes."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
