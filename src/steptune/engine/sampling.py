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

UNIFORM_BITS = 22
"""Bits of a uniform. With 22 bits and half-cell centres, u * total < total holds in float32 for every total."""


def noise_keys(seed: int, problem_n: Tensor, sample_n: Tensor) -> Tensor:
    """Return int64 keys [n], one noise stream per (seed, problem, sample)."""
    seed_key = _mix(torch.tensor(seed, dtype=torch.int64, device=problem_n.device) + GOLDEN_GAMMA)
    problem_key_n = _mix(seed_key + GOLDEN_GAMMA + problem_n)
    return _mix(problem_key_n + GOLDEN_GAMMA + sample_n)


def uniforms(key_n: Tensor, position_n: Tensor) -> Tensor:
    """Return float32 uniforms [n] in the open interval (0, 1) for a position of each stream."""
    bits_n = _shift_right(_mix(key_n + (position_n + 1) * GOLDEN_GAMMA), 64 - UNIFORM_BITS)
    return (bits_n.float() + 0.5) * 2.0**-UNIFORM_BITS


def draw(probs_nV: Tensor, uniform_n: Tensor) -> Tensor:
    """Return token ids [n] by inverse CDF; rows need not add up to 1, and a zero is never drawn."""
    cdf_nV = probs_nV.cumsum(-1)
    target_n1 = uniform_n[:, None] * cdf_nV[:, -1:]
    return (cdf_nV <= target_n1).sum(-1)


def entropy(logprobs_nV: Tensor) -> Tensor:
    """Return the entropy [n] in nats."""
    return -(logprobs_nV.exp() * logprobs_nV).sum(-1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * MIX_1
    x = (x ^ _shift_right(x, 27)) * MIX_2
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's `>>` copies the sign bit, which the mask removes."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
