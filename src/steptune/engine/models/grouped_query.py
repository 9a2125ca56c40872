"""Grouped-query attention: projections, optional head norms and rotation around whatever `context.attend` does.

Shape letters: N positions (any leading shape), D model, H query head, K key/value head, A = H + K of both,
E head dim.
"""

import torch
from torch import Tensor, nn

from steptune.core.model import DecoderModel
from steptune.engine.context import Context
from steptune.engine.models.layers import RMSNorm, rotate


class GroupedQueryAttention(nn.Module):
    """One layer's attention; query, key, value and the optional output gate come from one product."""

    def __init__(self, spec: DecoderModel, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads, self.num_kv_heads, self.head_width = spec.num_heads, spec.num_kv_heads, spec.head_width
        q_width, gate_heads = spec.num_heads * spec.head_width, spec.num_heads if spec.attention_gate else 0
        self.split = (spec.num_heads + spec.num_kv_heads, spec.num_kv_heads, gate_heads)
        self.qkv = nn.Linear(spec.d_model, sum(self.split) * spec.head_width, bias=spec.attention_bias)
        self.out = nn.Linear(q_width, spec.d_model, bias=spec.attention_bias)
        self.q_norm = RMSNorm(spec.head_width, spec.norm_eps) if spec.qk_norm else None
        self.k_norm = RMSNorm(spec.head_width, spec.norm_eps) if spec.qk_norm else None

    def forward(
        self, norm: RMSNorm, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context
    ) -> tuple[Tensor, Tensor]:
        """Return what attention saw [..., H E], and the output gate for `finish`; rotary tables have a row a position.

        ``norm`` comes before the projections, and is run with them.
        """
        q_NHE, k_NKE, v_NKE, gate_NHE = context.run(projected, self, norm, x_ND, cos_NE, sin_NE)
        return context.attend(self.layer, q_NHE, k_NKE, v_NKE).flatten(-2), gate_NHE.flatten(-2)

    def project(self, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries, keys, values and the output gate (of no heads where the model has none)."""
        qk_NAE, v_NKE, gate_NHE = self.qkv(x_ND).unflatten(-1, (-1, self.head_width)).split(self.split, dim=-2)
        # queries and keys rotate in one go
        q_NHE, k_NKE = rotate(self._normed(qk_NAE), cos_NE, sin_NE).split((self.num_heads, self.num_kv_heads), dim=-2)
        return q_NHE, k_NKE, v_NKE, gate_NHE

    def finish(self, seen: Tensor, gate: Tensor) -> Tensor:
        """Return the output [..., D] of what attention saw."""
        return self.out(seen * gate.sigmoid() if self.split[-1] else seen)

    def _normed(self, qk_NAE: Tensor) -> Tensor:
        """Return queries and keys, all heads side by side, normed where the model does so."""
        if self.q_norm is None or self.k_norm is None:
            return qk_NAE
        q_NHE, k_NKE = qk_NAE.split((self.num_heads, self.num_kv_heads), dim=-2)
        return torch.cat((self.q_norm(q_NHE), self.k_norm(k_NKE)), dim=-2)


def projected(
    layer: GroupedQueryAttention, norm: RMSNorm, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what attention needs of a layer's input: the region before it (see `Context.run`)."""
    return layer.project(norm(x_ND), cos_NE, sin_NE)
