"""Grouped-query attention: projections, optional head norms and rotation around whatever `context.attend` does.

Shape letters: N positions (any leading shape), D model, H query head, K key/value head, E head dim.
"""

from torch import Tensor, nn

from steptune.core.model import DecoderModel
from steptune.engine.context import Context
from steptune.engine.models.layers import RMSNorm, rotate


class GroupedQueryAttention(nn.Module):
    """One layer's attention; query, key, value and the optional output gate come from one product."""

    def __init__(self, spec: DecoderModel, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads, self.kv_heads = (spec.num_heads, spec.head_width), (spec.num_kv_heads, spec.head_width)
        q_width = spec.num_heads * spec.head_width
        self.split = (q_width, spec.kv_width, spec.kv_width, q_width if spec.attention_gate else 0)
        self.qkv = nn.Linear(spec.d_model, sum(self.split), bias=spec.attention_bias)
        self.out = nn.Linear(q_width, spec.d_model, bias=spec.attention_bias)
        self.q_norm = RMSNorm(spec.head_width, spec.norm_eps) if spec.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(spec.head_width, spec.norm_eps) if spec.qk_norm else nn.Identity()

    def forward(self, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context) -> Tensor:
        """Return the output [..., D]; rotary tables carry one row per position."""
        q, k, v, gate = self.qkv(x_ND).split(self.split, dim=-1)
        q_NHE = rotate(self.q_norm(q.unflatten(-1, self.heads)), cos_NE, sin_NE)
        k_NKE = rotate(self.k_norm(k.unflatten(-1, self.kv_heads)), cos_NE, sin_NE)
        out = context.attend(self.layer, q_NHE, k_NKE, v.unflatten(-1, self.kv_heads)).flatten(-2)
        return self.out(out * gate.sigmoid() if self.split[-1] else out)
