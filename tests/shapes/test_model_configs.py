import json
from pathlib import Path

import pytest

from steptune.core.errors import ModelError
from steptune.shapes.config import read_shape, shape_of
from steptune.shapes.count import adapter_parameters, parameters

LLAMA = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
    "vocab_size": 10,
}


def test_a_small_llama_is_counted_by_hand() -> None:
    # embedding and head 2 x 80; a layer: q, k, v 8 x (8 + 2 x 4), o 8 x 8, feed-forward 3 x 8 x 16, two norms of 8
    layer = 128 + 64 + 384 + 16
    count = parameters(shape_of("tiny", LLAMA))
    assert count.total == 160 + 3 * layer + 8
    assert count.active == count.total
    assert count.experts == 0


def test_a_tied_head_is_the_embedding() -> None:
    assert parameters(shape_of("tied", {**LLAMA, "tie_word_embeddings": True})).head == 0


def test_adapters_have_a_pair_for_every_linear_layer() -> None:
    # rank 2: qkv 2 x (8 + 16), o 2 x 16, gate and up 2 x (8 + 32), down 2 x (16 + 8)
    assert adapter_parameters(shape_of("tiny", LLAMA), 2) == 3 * 2 * (24 + 16 + 40 + 24)


def test_a_vision_model_is_its_text_part_and_says_so() -> None:
    shape = shape_of("vl", {"model_type": "qwen3_vl", "text_config": LLAMA, "vision_config": {"depth": 27}})
    assert parameters(shape) == parameters(shape_of("text", LLAMA))
    assert any("vision" in part for part in shape.omits)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(ModelError, match=rf"lacks `{field}`"):
        shape_of("cut", {key: value for key, value in LLAMA.items() if key != field})


@pytest.mark.parametrize("value", [-1, 0.5, "8", True, float("nan"), 10**12])
def test_an_odd_field_is_named(value: object) -> None:
    with pytest.raises(ModelError, match="`hidden_size` of `odd`"):
        shape_of("odd", {**LLAMA, "hidden_size": value})


def test_an_unknown_architecture_is_refused_by_its_name() -> None:
    with pytest.raises(ModelError, match=r"got `lama`.*did you mean `llama`"):
        shape_of("new", {**LLAMA, "model_type": "lama"})
    with pytest.raises(ModelError, match="`model_type` of `none`"):
        shape_of("none", {})


def test_an_indexer_that_layers_share_is_refused() -> None:
    config = {**LLAMA, "model_type": "glm_moe_dsa", "index_topk": 2048, "index_topk_freq": 4}
    with pytest.raises(ModelError, match="`index_topk_freq`"):
        shape_of("shared", config)


def test_a_nemotron_names_its_blocks_by_letters_or_by_words() -> None:
    config = {
        **LLAMA,
        "model_type": "nemotron_h",
        "head_dim": 4,
        "mamba_num_heads": 2,
        "mamba_head_dim": 8,
        "ssm_state_size": 4,
        "n_groups": 1,
        "conv_kernel": 4,
    }
    letters = shape_of("letters", {**config, "hybrid_override_pattern": "M-*"})
    words = shape_of("words", {**config, "layers_block_type": ["mamba", "mlp", "attention"]})
    assert letters.layers == words.layers
    # one norm a block; the feed-forward is not gated: 2 x 8 x 16
    assert letters.num_layers == 3
    with pytest.raises(ModelError, match="hybrid_override_pattern"):
        shape_of("odd", {**config, "hybrid_override_pattern": "M?*"})


def test_layer_types_that_do_not_name_every_layer_are_refused() -> None:
    config = {**LLAMA, "model_type": "gemma2", "head_dim": 4, "sliding_window": 8, "layer_types": ["full_attention"]}
    with pytest.raises(ModelError, match="layer_types"):
        shape_of("short", config)


def test_a_config_is_read_from_a_file_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_shape(tmp_path).layers == read_shape(tmp_path / "config.json").layers
    (tmp_path / "bad.json").write_text("[1, 2")
    with pytest.raises(ModelError, match="no model configuration"):
        read_shape(tmp_path / "bad.json")
    with pytest.raises(ModelError, match="no model configuration"):
        read_shape(tmp_path / "missing.json")
