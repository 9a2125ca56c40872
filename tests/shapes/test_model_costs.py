"""Cache, state and FLOPs against published figures, and the laws they must obey."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.shapes.cost import (
    forward_flop_per_token,
    kv_bytes,
    kv_bytes_per_token,
    logits_bytes_per_token,
    state_bytes_per_sequence,
    training_flop_per_token,
)
from steptune.shapes.count import parameters
from steptune.shapes.registry import models, named_shape
from steptune.shapes.shape import ModelShape

SHAPES = [model.shape() for model in models()]
ANY_SHAPE = st.sampled_from(SHAPES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 70.272 kB: DeepSeek-V3 in table 1 of arXiv 2505.09343; 327.680 and 516.096 kB: Qwen2.5-72B and Llama-3.1-405B
        ("deepseek-v3", 70_272),
        ("qwen2.5-72b", 327_680),
        ("llama-3.1-405b", 516_096),
        # 2 x 32 layers x 8 heads x 128 x 2 bytes
        ("llama-3.1-8b", 131_072),
        # 16 of 64 layers keep a cache: 2 x 16 x 4 x 256 x 2
        ("qwen3.5-27b", 65_536),
    ],
)
def test_cache_bytes_per_token_are_the_published_ones(name: str, expected: int) -> None:
    assert kv_bytes_per_token(named_shape(name)) == expected


def test_a_window_stops_growing() -> None:
    shape = named_shape("gpt-oss-20b")  # 12 layers see 128 keys, 12 see all; 2 x 8 x 64 x 2 = 2048 bytes a key
    assert kv_bytes(shape, 100) == 24 * 2048 * 100
    assert kv_bytes(shape, 1128) == 12 * 2048 * (1128 + 128)


def test_an_indexer_adds_a_key_to_the_cache_and_bounds_the_keys_a_query_sees() -> None:
    plain, indexed = named_shape("deepseek-v3"), named_shape("deepseek-v3.2")
    assert kv_bytes_per_token(indexed) - kv_bytes_per_token(plain) == 61 * 128 * 2
    far, farther = (forward_flop_per_token(indexed, keys) for keys in (10_000, 20_000))
    # beyond 2,048 keys only the indexer's products grow: 2 x 64 heads x 128
    assert farther - far == 61 * 2 * 64 * 128 * 10_000


def test_recurrent_state_is_fixed_and_fp32() -> None:
    # 48 layers x (48 x 128 x 128 x 4 + 3 x (2 x 16 x 128 + 48 x 128) x 2): 144 MiB of memory, 2.8 MiB of inputs
    assert state_bytes_per_sequence(named_shape("qwen3.5-27b")) == 48 * (3_145_728 + 61_440)
    assert state_bytes_per_sequence(named_shape("qwen3-8b")) == 0


def test_training_flop_of_a_dense_model_are_six_a_parameter_and_the_attention() -> None:
    shape = named_shape("llama-3.1-8b")
    count = parameters(shape)
    matrices = count.total - count.embedding - 65 * 4096  # norms are no products
    attention = 4 * 32 * 32 * 128 * (8192 + 1) / 2
    assert isclose(training_flop_per_token(shape, 8192), 6 * matrices + 3 * attention)
    # 4 passes instead of 3
    assert isclose(training_flop_per_token(shape, 8192, recompute=True), 8 * matrices + 4 * attention)


@pytest.mark.parametrize(("name", "gflop"), [("deepseek-v2", 155), ("deepseek-v3", 250), ("llama-3.1-405b", 2448)])
def test_models_train_at_the_published_flop(name: str, gflop: float) -> None:
    # GFLOPs a token at 4,096 tokens, causal: arXiv 2505.09343, table 2
    assert training_flop_per_token(named_shape(name), 4096) / 1e9 == pytest.approx(gflop, rel=0.015)


def test_logits_of_one_token_are_the_vocabulary() -> None:
    assert logits_bytes_per_token(named_shape("qwen3-0.6b")) == 151_936 * 4


@given(ANY_SHAPE, st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_longer_sequence_never_needs_fewer_bytes_or_flop(shape: ModelShape, one: int, two: int) -> None:
    short, long = sorted((one, two))
    assert kv_bytes(shape, short) <= kv_bytes(shape, long)
    assert forward_flop_per_token(shape, short) <= forward_flop_per_token(shape, long)


@given(ANY_SHAPE, st.integers(1, 100_000))
def test_bytes_are_per_number_and_an_empty_sequence_has_none(shape: ModelShape, tokens: int) -> None:
    assert kv_bytes(shape, tokens, 1) * 2 == kv_bytes(shape, tokens, 2)
    assert kv_bytes(shape, 0) == 0
    assert kv_bytes(shape, tokens) >= kv_bytes_per_token(shape) * tokens


@given(ANY_SHAPE, st.integers(1, 4))
def test_more_layers_never_make_a_smaller_or_cheaper_model(shape: ModelShape, more: int) -> None:
    first = shape.layers[0].model_copy(update={"count": shape.layers[0].count + more})
    deeper = shape.model_copy(update={"layers": (first, *shape.layers[1:])})
    assert parameters(deeper).total > parameters(shape).total
    assert forward_flop_per_token(deeper, 100) > forward_flop_per_token(shape, 100)
    assert kv_bytes(deeper, 100) >= kv_bytes(shape, 100)
