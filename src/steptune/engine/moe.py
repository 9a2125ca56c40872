"""Mixture-of-experts feed-forward: a router that chooses, experts that compute (`moe_dispatch` brings them together).

The router always computes in float32, also under bf16: near-ties between experts decide which weights a token
meets, and 8 bits of mantissa make ties of many. Experts lie stacked in two tensors, so that one grouped product
reaches all of them; per-expert parameters exist only in Hugging Face files.

Shape letters: N positions (flattened), D model, E experts, k experts per token, F expert width.
"""

import torch
from torch import Tensor, nn

from steptune.core.model import ExpertFields
from steptune.engine.context import Context
from steptune.engine.models.layers import SwiGLU
from steptune.engine.moe_dispatch import mix_experts


class MoELayer(nn.Module):
    """Routed experts, and a shared one behind a sigmoid gate if the spec has it."""

    def __init__(self, spec: ExpertFields, layer: int) -> None:
        super().__init__()
        self.layer, self.top_k, self.norm_topk_prob = layer, spec.top_k, spec.norm_topk_prob
        self.router = nn.Linear(spec.d_model, spec.num_experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(spec.num_experts, 2 * spec.d_expert, spec.d_model))
        self.down = nn.Parameter(torch.empty(spec.num_experts, spec.d_model, spec.d_expert))
        if spec.d_shared_expert is None:
            self.shared, self.shared_gate = None, None
        else:
            self.shared = SwiGLU(spec.d_model, spec.d_shared_expert)
            self.shared_gate = nn.Linear(spec.d_model, 1, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Return the output [..., D]; positions do not influence each other."""
        x_ND = x.flatten(0, -2)
        expert_Nk, gate_Nk = self.route(x_ND, context)
        dtype = _compute_dtype(x_ND)
        weights = self.gate_up.to(dtype), self.down.to(dtype)
        out_ND = mix_experts(x_ND.to(dtype), expert_Nk, gate_Nk, *weights, dispatch=context.moe_dispatch)
        if self.shared is not None and self.shared_gate is not None:
            out_ND = out_ND + self.shared_gate(x_ND).sigmoid() * self.shared(x_ND)
        return out_ND.view_as(x)

    def route(self, x_ND: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Return each position's experts [N, k] and their weights [N, k] in float32.

        A replayed choice keeps this router's own probabilities, so its gradient stays.
        """
        with torch.autocast(x_ND.device.type, enabled=False):
            logits_NE = x_ND.float() @ self.router.weight.float().t()
        probs_NE = logits_NE.softmax(-1)
        expert_Nk = probs_NE.detach().topk(self.top_k, dim=-1).indices
        if context.routes is not None:
            expert_Nk = context.routes.choose(self.layer, expert_Nk)
        gate_Nk = probs_NE.gather(1, expert_Nk)
        return expert_Nk, gate_Nk / gate_Nk.sum(-1, keepdim=True) if self.norm_topk_prob else gate_Nk


def _compute_dtype(x: Tensor) -> torch.dtype:
    """Return the number format of products of ``x``: autocast's, which does not know grouped products."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
