"""Llama 3.1's stretched rotary frequencies at both ends, where the blend must be over."""

import torch
from torch import Tensor

from steptune.core.model import DenseModel, Llama3Rope
from steptune.engine.models.layers import rotary

PLAIN = DenseModel(num_layers=1, d_model=64, num_heads=1, num_kv_heads=1, d_ff=8, rope_theta=500_000.0)
SCALING = Llama3Rope(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192)


def frequencies(spec: DenseModel) -> Tensor:
    """Return radians per position, read off position 1; the first half of the sines is negative."""
    cos, sin = rotary(torch.tensor([1]), spec, torch.float64)
    return torch.atan2(sin, cos)[0, spec.rotary_width // 2 :]


def test_fast_frequencies_are_kept_slow_ones_divided_and_those_between_blended() -> None:
    plain, scaled = frequencies(PLAIN), frequencies(PLAIN.model_copy(update={"rope_scaling": SCALING}))
    turns = 8192 * plain / (2 * torch.pi)
    fast, slow = turns > 4.0, turns < 1.0
    torch.testing.assert_close(scaled[fast], plain[fast], rtol=1e-5, atol=0.0)
    torch.testing.assert_close(scaled[slow], plain[slow] / 8, rtol=1e-5, atol=0.0)
    between = ~(fast | slow)
    assert between.any()
    assert ((scaled < plain) & (scaled > plain / 8))[between].all()
