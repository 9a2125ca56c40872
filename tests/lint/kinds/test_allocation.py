"""AReaL's placement strings are counted as its grammar says."""

import pytest

from steptune.lint.kinds.allocation import num_gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sglang:d4t2+fsdp:d8", 16),
        ("sglang.d4p1t1+d4p1t1", 8),
        ("sglang:d2t2|fsdp:d4", 4),
        ("vllm:d1p1t1", 1),
        ("megatron:(attn:d4p1t4c2|ffn:d4p1e8)", 32),
        ("megatron:d2p2t2e4", 8),
    ],
)
def test_gpus_of_a_string(text: str, expected: int) -> None:
    assert num_gpus(text) == expected


@pytest.mark.parametrize("text", ["", "auto", "sglang+fsdp:d4"])
def test_a_string_without_sizes_is_unknown(text: str) -> None:
    assert num_gpus(text) is None
