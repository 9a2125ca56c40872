"""The linear-attention layer of Qwen3.5: short convolution, gated delta rule, gated norm.

What looks back, the convolution and the rule, goes through `context.recur`, which knows where a document begins; the
layer itself sees single positions only. Input projections are one product. The rule runs in float32, also under bf16
autocast: its state is a sum over the whole document.

Shape letters: N positions (any leading shape), D model, C convolved channels, H value head, E key dim, V value dim.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptune.core.model import HybridFields
from steptune.engine.context import Context, Recur
from steptune.engine.models.layers import RMSNorm

UNIT_EPS = 1e-6
"""Added to a squared length before its root (Qwen3.5)."""


class GatedDeltaLayer(nn.Module):
    """One layer's token mixer."""

    def __init__(self, spec: HybridFields, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.key_heads, self.value_heads = spec.linear_key_heads, spec.linear_value_heads
        self.key_dim, self.value_dim = spec.linear_key_dim, spec.linear_value_dim
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        self.convolved = (keys, keys, values)
        self.split = (spec.conv_channels, values, self.value_heads, self.value_heads)
        self.inputs = nn.Linear(spec.d_model, sum(self.split), bias=False)
        self.conv = nn.Parameter(torch.empty(spec.conv_channels, spec.conv_width))
        self.log_rate = nn.Parameter(torch.zeros(self.value_heads))
        self.rate_bias = nn.Parameter(torch.ones(self.value_heads))
        self.norm = RMSNorm(self.value_dim, spec.norm_eps)
        self.out = nn.Linear(values, spec.d_model, bias=False)

    def forward(self, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context) -> Tensor:
        """Return the output [..., D]; positions are not rotated, the order of tokens is in the state.

        Raises:
            AssertionError: the context says nothing of recurrent layers.
        """
        del cos_NE, sin_NE
        recur = context.recur
        assert recur is not None, "a recurrent layer needs `Context.recur`"
        mixed_NC, gate, strength_NH, rate_NH = self.inputs(x_ND).split(self.split, dim=-1)
        with torch.autocast(x_ND.device.type, enabled=False):
            out_NHV = self._mix(mixed_NC.float(), strength_NH.float(), rate_NH.float(), recur)
        gate_NHV = gate.unflatten(-1, (self.value_heads, self.value_dim))
        gated_NHV = self.norm(out_NHV) * F.silu(gate_NHV.float())
        return self.out(gated_NHV.to(x_ND.dtype).flatten(-2))

    def _mix(self, mixed_NC: Tensor, strength_NH: Tensor, rate_NH: Tensor, recur: Recur) -> Tensor:
        looked_NC = F.silu(recur.conv(self.layer, mixed_NC, self.conv.float()))
        q, k, v = looked_NC.split(self.convolved, dim=-1)
        q, k = (unit_length(x.unflatten(-1, (self.key_heads, self.key_dim))) for x in (q, k))
        repeats = self.value_heads // self.key_heads
        q, k = (x.repeat_interleave(repeats, dim=-2) for x in (q * self.key_dim**-0.5, k))
        log_decay_NH = -self.log_rate.float().exp() * F.softplus(rate_NH + self.rate_bias.float())
        v_NHV = v.unflatten(-1, (self.value_heads, self.value_dim))
        return recur.scan(self.layer, q, k, v_NHV, log_decay_NH, strength_NH.sigmoid())


def unit_length(x: Tensor) -> Tensor:
    """Return vectors of length 1 along the last axis, nearly: a zero vector stays zero."""
    return x * (x.square().sum(-1, keepdim=True) + UNIT_EPS).rsqrt()
