"""The gated delta rule: a recurrent memory that is read, corrected and forgotten, token by token or chunk by chunk.

With state S [E, V] per head, one token does (Gated DeltaNet, https://arxiv.org/abs/2412.06464)::

    S = exp(g) S        forget
    u = beta (v - k S)  what the memory gets wrong about this key
    S = S + k^T u       correct it
    o = q S             read

`scan` does the same for a chunk at once. The corrections of a chunk depend on each other through a unit lower
triangular system, solved once for all chunks together; only the states are carried on one by one. A position with
beta 0 and log-decay 0 changes nothing, which is how padding is written. Always float32.

Shape letters: R rows, W positions, H heads, E key dim, V value dim, n chunks, c positions of a chunk.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64
"""Positions solved at once, as in the published kernels: the work grows with its square, the loop falls with it."""


def step(
    q_RHE: Tensor, k_RHE: Tensor, v_RHV: Tensor, log_decay_RH: Tensor, beta_RH: Tensor, state_RHEV: Tensor
) -> tuple[Tensor, Tensor]:
    """Return one token's output [R, H, V] and the state after it."""
    state_RHEV = state_RHEV * log_decay_RH.exp()[..., None, None]
    wrong_RHV = beta_RH[..., None] * (v_RHV - torch.einsum("rhe,rhev->rhv", k_RHE, state_RHEV))
    state_RHEV = state_RHEV + k_RHE[..., :, None] * wrong_RHV[..., None, :]
    return torch.einsum("rhe,rhev->rhv", q_RHE, state_RHEV), state_RHEV


def scan(
    q_RWHE: Tensor,
    k_RWHE: Tensor,
    v_RWHV: Tensor,
    log_decay_RWH: Tensor,
    beta_RWH: Tensor,
    state_RHEV: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs [R, W, H, V] of whole rows and their last states [R, H, E, V].

    Rows begin at ``state_RHEV``, or empty.
    """
    width = q_RWHE.shape[1]
    chunk = min(CHUNK, width)
    q, k, v = (_chunked(x, chunk) for x in (q_RWHE, k_RWHE, v_RWHV))
    log_decay, beta = (_chunked(x[..., None], chunk)[..., 0] for x in (log_decay_RWH, beta_RWH))
    so_far_RHnc = log_decay.cumsum(-1)
    decay_RHncc = _pairwise_decay(so_far_RHnc)
    own_RHncV, through_RHncE = _solve(k, v, so_far_RHnc, beta, decay_RHncc)
    seen_RHncc = (q @ k.transpose(-1, -2)) * decay_RHncc
    read_RHncE = q * so_far_RHnc.exp()[..., None]
    written_RHnEc = (k * (so_far_RHnc[..., -1:] - so_far_RHnc).exp()[..., None]).transpose(-1, -2)
    kept_RHn = so_far_RHnc[..., -1].exp()
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1]) if state_RHEV is None else state_RHEV
    outputs = list[Tensor]()
    for i in range(v.shape[2]):
        wrong_RHcV = own_RHncV[:, :, i] - through_RHncE[:, :, i] @ state
        outputs.append(read_RHncE[:, :, i] @ state + seen_RHncc[:, :, i] @ wrong_RHcV)
        state = state * kept_RHn[:, :, i, None, None] + written_RHnEc[:, :, i] @ wrong_RHcV
    return torch.cat(outputs, dim=2).transpose(1, 2)[:, :width], state


def _chunked(x_RWHX: Tensor, chunk: int) -> Tensor:
    """Return [R, H, n, c, X] with zeros behind the last position: they change no state."""
    missing = -x_RWHX.shape[1] % chunk
    return F.pad(x_RWHX, (0, 0, 0, 0, 0, missing)).unflatten(1, (-1, chunk)).permute(0, 3, 1, 2, 4)


def _pairwise_decay(so_far_RHnc: Tensor) -> Tensor:
    """Return what is left of position j's entry at position i >= j, and 0 above the diagonal."""
    between = so_far_RHnc[..., :, None] - so_far_RHnc[..., None, :]
    is_later = torch.ones(between.shape[-2:], dtype=torch.bool, device=between.device).triu(1)
    return between.masked_fill(is_later, -torch.inf).exp()


def _solve(k: Tensor, v: Tensor, so_far: Tensor, beta: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """Return a chunk's corrections as (what they are from an empty state, what each unit of state takes off)."""
    unit_lower = ((k @ k.transpose(-1, -2)) * decay * beta[..., None]).tril(-1)
    weight = beta[..., None]
    right = torch.cat((weight * v, weight * so_far.exp()[..., None] * k), dim=-1)
    solved = torch.linalg.solve_triangular(unit_lower, right, upper=False, unitriangular=True)
    own, through = solved.split((v.shape[-1], k.shape[-1]), dim=-1)
    return own, through
