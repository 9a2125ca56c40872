"""Causal attention over runs of equally wide rows: the trainer's `attend`, padded and packed alike.

Positions are flat; a run's slice of them is viewed as [rows, width] without copying, so rows cannot see each
other and padding behind a row is invisible to it (causality needs no mask for that). The surprise: attention
always runs in float32, also under bf16 autocast. PyTorch's CPU kernel for bf16 is 5 times slower in the
backward pass at rows of about 24 tokens (torch 2.13, Intel Xeon with AVX-512: 181 against 34 ms).

Shape letters: N positions, R rows, W width, H query head, K key/value head, E head dim.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.engine.context import Attend
from steptune.engine.plan import Run


def attend_runs(runs: Sequence[Run]) -> Attend:
    """Return the `attend` of one micro-batch laid out as ``runs``; every layer shares it."""
    sizes = [run.width * run.num_rows for run in runs]

    def attend(_layer: int, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            q_NHE, k_NKE, v_NKE = q_NHE.float(), k_NKE.float(), v_NKE.float()
            if len(runs) == 1:
                return _attend_run(runs[0], q_NHE, k_NKE, v_NKE)
            # split, not slices: its backward is one concatenation, a slice's is a full-size zero tensor each.
            parts = zip(runs, q_NHE.split(sizes), k_NKE.split(sizes), v_NKE.split(sizes), strict=True)
            return torch.cat([_attend_run(run, q, k, v) for run, q, k, v in parts])

    return attend


def _attend_run(run: Run, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
    shape = (run.num_rows, run.width)
    q, k, v = (x.unflatten(0, shape).transpose(1, 2) for x in (q_NHE, k_NKE, v_NKE))
    out_RHWE = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out_RHWE.transpose(1, 2).flatten(0, 1)
