"""One attention call for rows of every length on CUDA: cumulative lengths, counted on the host once per batch.

Not run on a GPU yet: written against torch 2.13's `torch.nn.attention.varlen.varlen_attn`, which has no CPU kernel; a
test hands its arguments to a stand-in written from the documentation. Where it cannot serve (float32, heads of other
widths, sizes its backward pass cannot address) attention falls back to the runs, which every device has.

The surprise: the kernel's backward pass counts in int32. Its padded buffer holds (tokens + 128 * documents) * heads *
head dim rounded up to 32 elements, and beyond 2^31 of them it writes where it must not: 16 heads of 128 and 8,129
documents of one token are enough. Whether it fits is decided by shapes alone, never by whether a gradient is
wanted: a checkpoint's first pass wants none, and its second pass must choose the same kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature

import torch
from torch import Tensor

from steptune.engine.micro_batch import Run

INT32_ELEMENTS = 2**31
"""Elements that an int32 index cannot reach any more."""

DOCUMENT_PAD = 128
"""Tokens by which the kernel's backward buffer grows per document (flash-attention 2, `varlen_bwd`)."""

MAX_HEAD_DIM, HEAD_DIM_STEP = 256, 8
"""Widest head of the kernel, and what a head's width must be a multiple of."""

HEAD_DIM_MULTIPLE = 32
"""Head dims are rounded up to a multiple of this in the same buffer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VarlenLengths:
    """Where every row's queries and keys start, for rows of 24, 24 and 17: ``max_q=24, num_documents=3``."""

    start_q: Tensor
    """int32 [rows + 1] on the device, positions before each row; the last entry is all of them."""
    start_k: Tensor
    """int32 [rows + 1] on the device, the same of the keys; a shared prompt counts once per row."""
    max_q: int
    max_k: int
    num_positions: int
    num_documents: int


@cache
def has_varlen() -> bool:
    """Return whether this torch has the call with the arguments it is given here (absent before torch 2.10)."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    return signature(varlen_attn).parameters.keys() >= {"window_size", "enable_gqa"}


def varlen_lengths(runs: Sequence[Run], device: torch.device) -> VarlenLengths:
    """Return the lengths of ``runs``; counted on the host, so no layer ever waits for the device."""
    width_R = [run.width for run in runs for _ in range(run.num_rows)]
    keys_R = [run.prefix + run.width for run in runs for _ in range(run.num_rows)]
    return VarlenLengths(
        start_q=_starts(width_R, device),
        start_k=_starts(keys_R, device),
        max_q=max(width_R),
        max_k=max(keys_R),
        num_positions=sum(width_R),
        num_documents=len(width_R),
    )


def fits_int32(*, num_positions: int, num_documents: int, num_heads: int, head_dim: int) -> bool:
    """Return whether the backward pass can address its buffer (see the module)."""
    rounded_dim = -(-head_dim // HEAD_DIM_MULTIPLE) * HEAD_DIM_MULTIPLE
    return (num_positions + DOCUMENT_PAD * num_documents) * num_heads * rounded_dim < INT32_ELEMENTS


def can_attend_varlen(lengths: VarlenLengths, q_NHE: Tensor, dtype: torch.dtype) -> bool:
    """Return whether the one call serves these queries; ``dtype`` is that of the values."""
    num_heads, head_dim = q_NHE.shape[1:]
    is_kernels = dtype in (torch.bfloat16, torch.float16) and head_dim <= MAX_HEAD_DIM and head_dim % HEAD_DIM_STEP == 0
    return is_kernels and fits_int32(
        num_positions=lengths.num_positions,
        num_documents=lengths.num_documents,
        num_heads=num_heads,
        head_dim=head_dim,
    )


def attend_varlen(lengths: VarlenLengths, q_NHE: Tensor, k_MKE: Tensor, v_MKE: Tensor) -> Tensor:
    """Return causal attention [N, H, E] of every row over its own keys, the last query seeing the last key."""
    from torch.nn.attention.varlen import varlen_attn

    out_NHE = varlen_attn(
        q_NHE.to(v_MKE.dtype),
        k_MKE.to(v_MKE.dtype),
        v_MKE,
        lengths.start_q,
        lengths.start_k,
        lengths.max_q,
        lengths.max_k,
        window_size=(-1, 0),
        enable_gqa=True,
    )
    assert isinstance(out_NHE, Tensor), "log-sum-exp was not asked for"
    return out_NHE


def _starts(lengths_R: Sequence[int], device: torch.device) -> Tensor:
    ends_R = torch.tensor([0, *lengths_R]).cumsum(0, dtype=torch.int32)
    return ends_R.to(device, non_blocking=True)
