"""The transformer: one definition for rollout and training, put together from `models` by the job's spec.

What differs between the two is only *attention over what*: a KV cache, a padded batch or packed documents.
The model therefore takes a `Context` and knows nothing of masks, caches or layouts.

Shape letters: N positions (any leading shape), D model, E head dim, V vocab.
"""

import math

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from steptune.core.model import ExpertFields, HybridFields, ModelSpec
from steptune.engine.context import Context
from steptune.engine.models.delta_layer import GatedDeltaLayer
from steptune.engine.models.grouped_query import GroupedQueryAttention
from steptune.engine.models.layers import RMSNorm, SwiGLU, rotary
from steptune.engine.moe import MoELayer
from steptune.engine.offload.step import OffloadStep, block_runner

INIT_STD = 0.02
"""Standard deviation of fresh weights, GPT-2's; what writes to the residual stream gets less the deeper the model."""


CONV_BOUND = 0.5
"""Fresh convolution weights are uniform up to this: 1 / sqrt(4 positions), torch's default for a convolution."""

LOG_RATE_RANGE = (math.log(0.01), math.log(16.0))
"""Fresh decay rates per head, uniform in the logarithm: some heads remember a document, some a few tokens."""


class Block(nn.Module):
    """Pre-norm token mixer (attention, or the gated delta rule) and feed-forward."""

    def __init__(self, spec: ModelSpec, layer: int) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(spec.d_model, spec.norm_eps)
        self.attention = _mixer(spec, layer)
        self.ffn_norm = RMSNorm(spec.d_model, spec.norm_eps)
        self.ffn = MoELayer(spec, layer) if isinstance(spec, ExpertFields) else SwiGLU(spec.d_model, spec.d_ff)

    def forward(self, x_ND: Tensor, cos_NE: Tensor, sin_NE: Tensor, context: Context) -> Tensor:
        """Return the block's output for ``x_ND``; rotary tables carry one row per position."""
        seen, gate = self.attention(self.attn_norm, x_ND, cos_NE, sin_NE, context)
        if isinstance(self.ffn, MoELayer):
            x_ND, h_ND = context.run(before_experts, self, x_ND, seen, gate)
            return x_ND + self.ffn(h_ND, context)
        return context.run(with_feed_forward, self, x_ND, seen, gate)


def before_experts(block: Block, x_ND: Tensor, seen: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """Return the stream behind the token mixer and what the experts read of it: the region before them."""
    x_ND = x_ND + block.attention.finish(seen, gate)
    return x_ND, block.ffn_norm(x_ND)


def with_feed_forward(block: Block, x_ND: Tensor, seen: Tensor, gate: Tensor) -> Tensor:
    """Return a block's output: the region behind its token mixer."""
    x_ND, h_ND = before_experts(block, x_ND, seen, gate)
    return x_ND + block.ffn(h_ND)


def _mixer(spec: ModelSpec, layer: int) -> GroupedQueryAttention | GatedDeltaLayer:
    if isinstance(spec, HybridFields) and not spec.has_full_attention(layer):
        return GatedDeltaLayer(spec, layer)
    return GroupedQueryAttention(spec, layer)


class Transformer(nn.Module):
    """Decoder-only language model of any family."""

    def __init__(self, spec: ModelSpec, vocab_size: int) -> None:
        super().__init__()
        self.spec = spec
        num_rows = spec.embedding_rows(vocab_size)
        self.embed = nn.Embedding(num_rows, spec.d_model)
        self.blocks = nn.ModuleList([Block(spec, i) for i in range(spec.num_layers)])
        self.norm = RMSNorm(spec.d_model, spec.norm_eps)
        self.head = None if spec.tie_embeddings else nn.Linear(spec.d_model, num_rows, bias=False)

    def hidden(
        self, tokens_N: Tensor, positions_N: Tensor, context: Context, *, recompute: bool | OffloadStep = False
    ) -> Tensor:
        """Return final hidden states [..., D] of ``tokens_N`` at ``positions_N``.

        With ``recompute`` each block keeps only its input and is run again in the backward pass; given a step of
        `engine.offload`, these inputs wait outside the device's memory where that helps.
        """
        x_ND = self.embed(tokens_N)
        cos_NE, sin_NE = rotary(positions_N, self.spec, x_ND.dtype)
        run = block_runner(recompute, len(self.blocks), x_ND)
        for block in self.blocks:
            x_ND = run(block, x_ND, cos_NE, sin_NE, context)
        return self.norm(x_ND)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Return logits [..., V] of hidden states."""
        return F.linear(hidden_ND, self.head_weight)

    @property
    def head_weight(self) -> Tensor:
        """The output head's weight [V, D]; the input embedding's where the two are tied."""
        return self.embed.weight if self.head is None else self.head.weight


def build_model(spec: ModelSpec, vocab_size: int, seed: int) -> Transformer:
    """Return a freshly initialised model; the same seed gives the same weights everywhere."""
    generator = Generator().manual_seed(seed)
    model = Transformer(spec, vocab_size)
    residual_std = INIT_STD / (2 * spec.num_layers) ** 0.5
    for name, param in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(param)
        elif name.endswith(".conv"):
            nn.init.uniform_(param, -CONV_BOUND, CONV_BOUND, generator=generator)
        elif name.endswith(".log_rate"):
            nn.init.uniform_(param, *LOG_RATE_RANGE, generator=generator)
        elif param.ndim >= 2:
            writes_residual = name.endswith(("out.weight", "down.weight", "ffn.down"))
            nn.init.normal_(param, std=residual_std if writes_residual else INIT_STD, generator=generator)
    return model


def num_parameters(model: nn.Module) -> int:
    """Return the number of learnt scalars."""
    return sum(p.numel() for p in model.parameters())
