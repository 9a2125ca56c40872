"""The models and rows that are checked and timed: small ones for checks, large ones for ratios, one of each family.

Large ones are random, their shapes those of small published models with fewer words: 0.4 to 0.6 billion parameters,
so that weights, gradients and AdamW's two moments in float32 (16 bytes a parameter) fit a card of 24 GB.
"""

import torch
from torch import nn

from steptune.core.model import DenseModel, HybridModel, ModelSpec, MoEModel
from steptune.engine.model import Transformer, build_model
from steptune.engine.probe_batch import Picked, batch_of
from steptune.engine.types import ScoredBatch

CHECK_VOCAB = 96
PAD, EOS = 0, 1

CHECKED: dict[str, ModelSpec] = {
    "dense": DenseModel(num_layers=3, d_model=128, num_heads=4, num_kv_heads=2, head_dim=32, d_ff=256, qk_norm=True),
    "moe": MoEModel(
        num_layers=3, d_model=128, num_heads=4, num_kv_heads=2, head_dim=32, num_experts=8, top_k=2, d_expert=64
    ),
    "hybrid": HybridModel(
        num_layers=4,
        d_model=128,
        num_heads=4,
        num_kv_heads=2,
        head_dim=32,
        d_ff=256,
        linear_key_heads=2,
        linear_value_heads=4,
        linear_key_dim=32,
        linear_value_dim=32,
    ),
}
"""Widths are multiples of 8 and heads of 32, as the kernels want them."""

TIMED_VOCAB = 32_768

TIMED: dict[str, ModelSpec] = {
    "dense": DenseModel(
        num_layers=28, d_model=1024, num_heads=16, num_kv_heads=8, head_dim=128, d_ff=3072, qk_norm=True
    ),
    "moe": MoEModel(
        num_layers=12, d_model=1024, num_heads=16, num_kv_heads=4, head_dim=64, num_experts=64, top_k=8, d_expert=192
    ),
    "hybrid": HybridModel(
        num_layers=24,
        d_model=1024,
        num_heads=8,
        num_kv_heads=2,
        head_dim=128,
        d_ff=3072,
        linear_key_heads=8,
        linear_value_heads=16,
        linear_key_dim=64,
        linear_value_dim=64,
    ),
}
"""Dense: the layers of Qwen3-0.6B. MoE: many narrow experts, as Qwen3-30B-A3B's, fewer of them. Hybrid: Qwen3.5's
layer pattern in the width of Qwen3-0.6B."""

WEIGHT_SCALE = 4.0
"""Checked models' matrices are made this much larger than fresh ones, so that attention and experts matter."""


def checked_model(family: str, device: torch.device) -> Transformer:
    """Return the small model of a family; the same weights on every device."""
    model = build_model(CHECKED[family], CHECK_VOCAB, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(WEIGHT_SCALE)
    return model.to(device)


def timed_spec(family: str, *, is_tiny: bool) -> ModelSpec:
    """Return the shape of the model that is timed; a tiny one is a checked one of three layers, enough to offload."""
    if not is_tiny:
        return TIMED[family]
    tiny = CHECKED[family].model_copy(update={"num_layers": 3})
    return tiny.model_copy(update={"full_attention_every": 3}) if isinstance(tiny, HybridModel) else tiny


def timed_model(family: str, *, is_tiny: bool, device: torch.device) -> Transformer:
    """Return the large model of a family, made on the device: its values do not matter."""
    with torch.device(device):
        model = Transformer(timed_spec(family, is_tiny=is_tiny), timed_vocab(is_tiny=is_tiny))
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            nn.init.normal_(parameter, std=0.02)
    return model


def timed_vocab(*, is_tiny: bool) -> int:
    """Return the words of the model that is timed."""
    return CHECK_VOCAB if is_tiny else TIMED_VOCAB


def rows(num_groups: int, group_size: int, prompt: int, mean: int, *, spread: float = 0.5) -> Picked:
    """Return groups of one prompt length with log-normal completions of about ``mean`` tokens, at most 3 times it."""
    noise_B = torch.randn(num_groups * group_size, generator=torch.Generator().manual_seed(0))
    length_B = (mean * (spread * noise_B - spread**2 / 2).exp()).round().clamp(1, 3 * mean).int().tolist()
    groups = [row // group_size for row in range(len(length_B))]
    return Picked(rows=[(prompt, length) for length in length_B], group_B=groups)


def checked_batch() -> ScoredBatch:
    """Return 12 rows of unequal length in groups of 4 with one prompt each."""
    return batch_of(rows(3, 4, 11, 17), CHECK_VOCAB)
