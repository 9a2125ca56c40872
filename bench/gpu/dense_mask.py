"""The baseline of the metadata optimisation: one mask over all packed rows, built in every layer or once.

Built from lengths that lie on the device, as a collator leaves them there: finding out how large the mask is makes
the host wait, once per build. Keys are repeated to the number of query heads first, so that a fused kernel takes the
mask; with grouped heads torch falls back to materialised scores, which would be an unfair baseline.

Shape letters: N positions, R rows, H query head, K key/value head, E head dim.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.engine import inputs as engine_inputs
from steptune.engine.context import Attend
from steptune.engine.micro_batch import Run


def attend_dense(runs: Sequence[Run], device: torch.device, *, is_cached: bool) -> Attend:
    """Return attention of packed rows under a block-diagonal mask, built per layer or (cached) once."""
    lengths_R = torch.tensor([run.width for run in runs for _ in range(run.num_rows)], device=device)
    kept_NN = _mask(lengths_R) if is_cached else None

    def attend(_layer: int, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
        mask_NN = _mask(lengths_R) if kept_NN is None else kept_NN
        repeats = q_NHE.shape[1] // k_NKE.shape[1]
        k_NHE, v_NHE = (x.repeat_interleave(repeats, dim=1) for x in (k_NKE, v_NKE))
        q, k, v = (x.to(v_NHE.dtype).transpose(0, 1)[None] for x in (q_NHE, k_NHE, v_NHE))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask_NN)[0].transpose(0, 1)

    return attend


@contextmanager
def trainer_attends_by(build: Callable[..., Attend] | None) -> Generator[None]:
    """Let the trainer's inputs be built with ``build`` in place of `attend_runs`; None leaves the engine as it is."""
    if build is None:
        yield
        return
    with mock.patch.object(engine_inputs, "attend_runs", build):
        yield


def per_layer(runs: Sequence[Run], _prompt_of: Sequence[int] = (), *, device: torch.device) -> Attend:
    """Return the engine's `attend` with a mask built in every layer."""
    return attend_dense(runs, device, is_cached=False)


def cached(runs: Sequence[Run], _prompt_of: Sequence[int] = (), *, device: torch.device) -> Attend:
    """Return the engine's `attend` with a mask built once a micro-batch."""
    return attend_dense(runs, device, is_cached=True)


def _mask(lengths_R: Tensor) -> Tensor:
    rows_R = torch.arange(len(lengths_R), device=lengths_R.device)
    row_N = rows_R.repeat_interleave(lengths_R)
    return (row_N[:, None] == row_N).tril_()
