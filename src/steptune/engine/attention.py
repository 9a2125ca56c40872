"""Causal attention over runs of equally wide rows: the trainer's `attend`, for every layout alike.

Positions are flat; a run's slice of them is viewed as [rows, width] without copying, so rows cannot see each
other and padding behind a row is invisible to it (causality needs no mask for that). Rows that continue a shared
prompt read their keys through one index over all runs; the only mask is theirs, [completion, prompt +
completion], one for each distinct pair of lengths. All of this is built once per micro-batch and serves every
layer: nothing is cached between batches, so nothing can be stale.

The surprise: on the CPU attention always runs in float32, also under bf16 autocast. PyTorch's CPU kernel for bf16
is 5 times slower in the backward pass at rows of about 24 tokens (torch 2.13, Intel Xeon with AVX-512: 181
against 34 ms).

Shape letters: N positions, M keys (a shared prompt once per row), R rows, W width, L prefix and width, H query head,
K key/value head, E head dim.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.engine.context import Attend
from steptune.engine.micro_batch import Run
from steptune.engine.precision import at_least_float32
from steptune.engine.varlen import attend_varlen, can_attend_varlen, has_varlen, varlen_lengths

CPU = torch.device("cpu")


def attend_runs(runs: Sequence[Run], prompt_of: Sequence[int] = (), *, device: torch.device = CPU) -> Attend:
    """Return the `attend` of one micro-batch laid out as ``runs``; every layer shares it.

    ``prompt_of`` tells for every row that continues a shared prompt which of the rows before it holds that prompt.
    ``device`` is where queries and keys will be; on CUDA half-precision attention is one variable-length call.
    """
    sizes, num_keys = [run.width * run.num_rows for run in runs], [run.num_keys for run in runs]
    key_M = key_index(runs, prompt_of).to(device) if prompt_of else None
    masks = {run: _lower_right(run).to(device) for run in runs if run.prefix}
    lengths = varlen_lengths(runs, device) if device.type == "cuda" and has_varlen() else None

    def attend(_layer: int, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
        if key_M is not None:
            k_MKE, v_MKE = (_gather(x, key_M) for x in (k_NKE, v_NKE))
        else:
            k_MKE, v_MKE = k_NKE, v_NKE
        if lengths is not None and can_attend_varlen(lengths, q_NHE, v_MKE.dtype):
            return attend_varlen(lengths, q_NHE, k_MKE, v_MKE)
        with torch.autocast(q_NHE.device.type, enabled=False):
            q, k, v = (at_least_float32(x) for x in (q_NHE, k_MKE, v_MKE))
            if len(runs) == 1:
                return _attend_run(runs[0], q, k, v, None)
            # split, not slices: its backward is one concatenation, a slice's is a full-size zero tensor each.
            parts = zip(runs, q.split(sizes), k.split(num_keys), v.split(num_keys), strict=True)
            return torch.cat([_attend_run(run, q, k, v, masks.get(run)) for run, q, k, v in parts])

    return attend


def key_index(runs: Sequence[Run], prompt_of: Sequence[int]) -> Tensor:
    """Return int64 [M]: the position of every key that the rows of ``runs`` attend to, row by row.

    Example: one prompt of 2 and two completions of 1: ``[0, 1,  0, 1, 2,  0, 1, 3]``.
    """
    width_R = torch.tensor([run.width for run in runs for _ in range(run.num_rows)])
    prefix_R = torch.tensor([run.prefix for run in runs for _ in range(run.num_rows)])
    start_R = width_R.cumsum(0) - width_R
    num_alone = len(width_R) - len(prompt_of)
    prompt_R = torch.cat([torch.arange(num_alone), torch.tensor(prompt_of, dtype=torch.int64)])
    column_L = torch.arange(int((prefix_R + width_R).max()))
    own_RL = (start_R - prefix_R)[:, None] + column_L
    key_RL = torch.where(column_L < prefix_R[:, None], start_R[prompt_R][:, None] + column_L, own_RL)
    return key_RL[column_L < (prefix_R + width_R)[:, None]]


def _gather(x_NKE: Tensor, key_M: Tensor) -> Tensor:
    return x_NKE.flatten(1).index_select(0, key_M).unflatten(1, x_NKE.shape[1:])


def _lower_right(run: Run) -> Tensor:
    """Return bool [width, prefix + width], True where a completion's token may look."""
    return torch.ones(run.width, run.prefix + run.width, dtype=torch.bool).tril(run.prefix)


def _attend_run(run: Run, q_NHE: Tensor, k_MKE: Tensor, v_MKE: Tensor, mask_WL: Tensor | None) -> Tensor:
    q = q_NHE.unflatten(0, (run.num_rows, run.width)).transpose(1, 2)
    k, v = (x.unflatten(0, (run.num_rows, run.prefix + run.width)).transpose(1, 2) for x in (k_MKE, v_MKE))
    out_RHWE = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_WL, is_causal=mask_WL is None, enable_gqa=True)
    return out_RHWE.transpose(1, 2).flatten(0, 1)
