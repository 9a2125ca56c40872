"""Slots of the key/value cache change places whole."""

import torch

from steptune.core.model import DenseModel
from steptune.engine.kv_cache import KVCache

SPEC = DenseModel(num_layers=2, d_model=8, num_heads=2, num_kv_heads=1, d_ff=8)


def test_a_move_copies_the_whole_used_prefix_and_nothing_else() -> None:
    cache = KVCache(SPEC, num_slots=3, max_len=6, dtype=torch.float32, device=torch.device("cpu"))
    cache.data.normal_()
    expected = cache.data.clone()
    expected[:, :, 0, :, :4] = expected[:, :, 2, :, :4]
    cache.move(torch.tensor([2]), torch.tensor([0]), 4)
    assert torch.equal(cache.data, expected)
