"""The transformer: one definition for rollout and training.

What differs between the two is only *attention over what*: a KV cache, a padded batch or packed documents.
The model therefore takes a `Context` and knows nothing of masks, caches or layouts.

Shape letters: N positions (any leading shape), D model, H query head, K key/value head, E head dim, V vocab.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from steptune.core.job import DenseModel
from steptune.engine.context import Context

NORM_EPS = 1e-6
"""RMSNorm epsilon, as in Llama and Qwen3 configs."""


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learnt scale."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x_ND: Tensor) -> Tensor:
        """Normalise the last axis."""
        return F.rms_norm(x_ND, (x_ND.shape[-1],), self.weight, NORM_EPS)


class Block(nn.Module):
    """Pre-norm attention and SwiGLU feed-forward."""

    def __init__(self, spec: DenseModel, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads, self.num_kv_heads = spec.num_heads, spec.num_kv_heads
        self.head_dim = spec.d_model // spec.num_heads
        q_dim, kv_dim = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.split = (q_dim, kv_dim, kv_dim)
        self.attn_norm = RMSNorm(spec.d_model)
        self.qkv = nn.Linear(spec.d_model, sum(self.split), bias=False)
        self.out = nn.Linear(q_dim, spec.d_model, bias=False)
        self.ffn_norm = RMSNorm(spec.d_model)
        self.gate_up = nn.Linear(spec.d_model, 2 * spec.d_ff, bias=False)
        self.down = nn.Linear(spec.d_ff, spec.d_model, bias=False)

    def forward(self, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context) -> Tensor:
        """Return the block's output for ``x_ND``; rotary tables carry one row per position."""
        q, k, v = self.qkv(self.attn_norm(x_ND)).split(self.split, dim=-1)
        q = rotate(q.unflatten(-1, (self.num_heads, self.head_dim)), cos_NE, sin_NE)
        k = rotate(k.unflatten(-1, (self.num_kv_heads, self.head_dim)), cos_NE, sin_NE)
        v = v.unflatten(-1, (self.num_kv_heads, self.head_dim))
        x_ND = x_ND + self.out(context.attend(self.layer, q, k, v).flatten(-2))
        gate, up = self.gate_up(self.ffn_norm(x_ND)).chunk(2, dim=-1)
        return x_ND + self.down(F.silu(gate) * up)


class Transformer(nn.Module):
    """Decoder-only language model with tied input and output embeddings."""

    def __init__(self, spec: DenseModel, vocab_size: int) -> None:
        super().__init__()
        self.spec = spec
        self.embed = nn.Embedding(vocab_size, spec.d_model)
        self.blocks = nn.ModuleList([Block(spec, i) for i in range(spec.num_layers)])
        self.norm = RMSNorm(spec.d_model)

    def hidden(self, tokens_N: Tensor, positions_N: Tensor, context: Context, *, recompute: bool = False) -> Tensor:
        """Return final hidden states [..., D] of ``tokens_N`` at ``positions_N``.

        With ``recompute`` each block keeps only its input and is run again in the backward pass.
        """
        head_dim = self.spec.d_model // self.spec.num_heads
        x_ND = self.embed(tokens_N)
        cos_NE, sin_NE = rotary(positions_N, head_dim, self.spec.rope_theta, x_ND.dtype)
        for block in self.blocks:
            if recompute:
                x_ND = checkpoint(block, x_ND, cos_NE, sin_NE, context, use_reentrant=False, preserve_rng_state=False)
            else:
                x_ND = block(x_ND, cos_NE, sin_NE, context)
        return self.norm(x_ND)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Return logits [..., V] of hidden states."""
        return F.linear(hidden_ND, self.embed.weight)


def build_model(spec: DenseModel, vocab_size: int, seed: int) -> Transformer:
    """Return a freshly initialised model; the same seed gives the same weights everywhere."""
    generator = torch.Generator().manual_seed(seed)
    model = Transformer(spec, vocab_size)
    residual_std = 0.02 / (2 * spec.num_layers) ** 0.5
    for name, param in model.named_parameters():
        if param.ndim == 2:
            std = residual_std if name.endswith(("out.weight", "down.weight")) else 0.02
            nn.init.normal_(param, std=std, generator=generator)
    return model


def num_parameters(model: nn.Module) -> int:
    """Return the number of learnt scalars."""
    return sum(p.numel() for p in model.parameters())


def rotary(positions_N: Tensor, head_dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cos and sin tables [..., head_dim] (RoFormer, https://arxiv.org/abs/2104.09864)."""
    inv_freq = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle_NE = (positions_N[..., None].float() * inv_freq).repeat(*([1] * positions_N.ndim), 2)
    return angle_NE.cos().to(dtype), angle_NE.sin().to(dtype)


def rotate(x_NHE: Tensor, cos_NE: Tensor, sin_NE: Tensor) -> Tensor:
    """Apply rotary position embedding to every head."""
    half = x_NHE.shape[-1] // 2
    swapped = torch.cat((-x_NHE[..., half:], x_NHE[..., :half]), dim=-1)
    return x_NHE * cos_NE[..., None, :] + swapped * sin_NE[..., None, :]
