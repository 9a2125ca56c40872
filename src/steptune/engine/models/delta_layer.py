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
from steptune.engine.context import Context
from steptune.engine.models.layers import RMSNorm

RuleInputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Queries, keys, values, log decays and strengths."""

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

    def forward(
        self, norm: RMSNorm, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context
    ) -> tuple[Tensor, Tensor]:
        """Return the rule's output [..., H V] and the output gate for `finish`.

        ``norm`` comes before the projections, and is run with them. Positions are not rotated, the order of tokens is
        in the state.

        Raises:
            AssertionError: the context says nothing of recurrent layers.
        """
        del cos_NE, sin_NE
        recur, run = context.recur, context.run
        assert recur is not None, "a recurrent layer needs `Context.recur`"
        mixed_NC, gate, strength_NH, rate_NH = run(mixed, self, norm, x_ND)
        with torch.autocast(x_ND.device.type, enabled=False):
            looked_NC = recur.conv(self.layer, mixed_NC, self.conv.float())
            inputs = run(steered, self, looked_NC, strength_NH, rate_NH)
            return recur.scan(self.layer, *inputs).flatten(-2), gate

    def steer(self, looked_NC: Tensor, strength_NH: Tensor, rate_NH: Tensor) -> RuleInputs:
        """Return what the rule needs: queries, keys, values, decays and strengths (see `models.delta_rule`)."""
        q, k, v = F.silu(looked_NC).split(self.convolved, dim=-1)
        q, k = (unit_length(x.unflatten(-1, (self.key_heads, self.key_dim))) for x in (q, k))
        repeats = self.value_heads // self.key_heads
        q, k = (x.repeat_interleave(repeats, dim=-2) for x in (q * self.key_dim**-0.5, k))
        log_decay_NH = -self.log_rate.float().exp() * F.softplus(rate_NH + self.rate_bias.float())
        v_NHV = v.unflatten(-1, (self.value_heads, self.value_dim))
        return q, k, v_NHV, log_decay_NH, strength_NH.sigmoid()

    def finish(self, seen: Tensor, gate: Tensor) -> Tensor:
        """Return the output [..., D] of what the rule gave."""
        seen_NHV, gate_NHV = (x.unflatten(-1, (self.value_heads, self.value_dim)) for x in (seen, gate))
        gated_NHV = self.norm(seen_NHV) * F.silu(gate_NHV.float())
        return self.out(gated_NHV.to(gate.dtype).flatten(-2))


def mixed(layer: GatedDeltaLayer, norm: RMSNorm, x_ND: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what the convolution needs of a layer's input, gate, strengths and rates: the region before it."""
    mixed_NC, gate, strength_NH, rate_NH = layer.inputs(norm(x_ND)).split(layer.split, dim=-1)
    return mixed_NC.float(), gate, strength_NH.float(), rate_NH.float()


def steered(layer: GatedDeltaLayer, looked_NC: Tensor, strength_NH: Tensor, rate_NH: Tensor) -> RuleInputs:
    """Return the rule's inputs: the region between convolution and rule."""
    return layer.steer(looked_NC, strength_NH, rate_NH)


def unit_length(x: Tensor) -> Tensor:
    """Return vectors of length 1 along the last axis, nearly: a zero vector stays zero."""
    return x * (x.square().sum(-1, keepdim=True) + UNIT_EPS).rsqrt()
