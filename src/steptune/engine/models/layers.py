"""The layers every family shares: norm, rotary positions, SwiGLU.

Shape letters: N positions (any leading shape), D model or head width, H heads, E head dim, F feed-forward width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptune.core.model import DecoderModel, Llama3Rope


class RMSNorm(nn.Module):
    """Root-mean-square norm of the last axis with a learnt scale."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x_ND: Tensor) -> Tensor:
        """Normalise the last axis, in the wider of both number formats: bf16 products meet float32 weights here."""
        dtype = torch.promote_types(x_ND.dtype, self.weight.dtype)
        return F.rms_norm(x_ND.to(dtype), (x_ND.shape[-1],), self.weight.to(dtype), self.eps)


class SwiGLU(nn.Module):
    """Gated feed-forward, both input projections in one product."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the output [..., D]."""
        return self.down(gated(self.gate_up(x_ND)))


def gated(gate_up_N2F: Tensor) -> Tensor:
    """Return silu(gate) * up [..., F] of both projections side by side."""
    gate_NF, up_NF = gate_up_N2F.chunk(2, dim=-1)
    return F.silu(gate_NF) * up_NF


def rotary(positions_N: Tensor, spec: DecoderModel, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cos and sin tables [..., rotary width] (RoFormer, https://arxiv.org/abs/2104.09864).

    The first half of the sines is negative: `rotate` then swaps halves without a sign.
    """
    angle_Ne = positions_N[..., None].float() * _frequencies(spec, spec.rotary_width, positions_N.device)
    cos_Ne, sin_Ne = angle_Ne.cos(), angle_Ne.sin()
    return torch.cat((cos_Ne, cos_Ne), -1).to(dtype), torch.cat((-sin_Ne, sin_Ne), -1).to(dtype)


def rotate(x_NHE: Tensor, cos_NE: Tensor, sin_NE: Tensor) -> Tensor:
    """Apply rotary position embedding to every head, or to as much of it as the tables are wide."""
    width = cos_NE.shape[-1]
    if width < x_NHE.shape[-1]:
        return torch.cat((rotate(x_NHE[..., :width], cos_NE, sin_NE), x_NHE[..., width:]), dim=-1)
    swapped = torch.cat(x_NHE.chunk(2, dim=-1)[::-1], dim=-1)
    return torch.addcmul(x_NHE * cos_NE[..., None, :], swapped, sin_NE[..., None, :])


def _frequencies(spec: DecoderModel, width: int, device: torch.device) -> Tensor:
    """Return radians per position [width / 2], highest first."""
    frequency = spec.rope_theta ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
    return frequency if spec.rope_scaling is None else _stretched(frequency, spec.rope_scaling)


def _stretched(frequency: Tensor, scaling: Llama3Rope) -> Tensor:
    """Return Llama 3.1's frequencies: slow ones divided by `factor`, fast ones kept, a blend between."""
    turns = scaling.original_max_positions * frequency / (2 * math.pi)
    kept_frac = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept_frac = kept_frac.clamp(0, 1)
    return frequency * (kept_frac + (1 - kept_frac) / scaling.factor)
