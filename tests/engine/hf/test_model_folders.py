"""Folders of models: what is written is read back exactly, and every damage is told by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as safetensors_torch

from steptune.core.errors import ModelError
from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, Llama3Rope, ModelSpec, MoEModel
from steptune.engine.hf import load_model, save_model
from steptune.engine.hf.config import config_of_spec, spec_of_config
from steptune.engine.model import build_model

VOCAB = 30
LLAMA = DenseModel(
    num_layers=2,
    d_model=16,
    num_heads=4,
    num_kv_heads=2,
    head_dim=6,
    d_ff=24,
    attention_bias=True,
    rope_scaling=Llama3Rope(factor=8.0, original_max_positions=64),
    norm_eps=1e-5,
)
QWEN = DenseModel(num_layers=2, d_model=16, num_heads=4, num_kv_heads=2, d_ff=24, qk_norm=True, tie_embeddings=False)
QWEN_MOE = MoEModel(num_layers=2, d_model=16, num_heads=4, num_kv_heads=2, num_experts=3, top_k=2, d_expert=8)
HYBRID = HybridModel(
    d_model=16, num_heads=4, num_kv_heads=2, head_dim=8, d_ff=24, linear_key_heads=1, linear_value_heads=2
)
HYBRID_MOE = HybridMoEModel(
    num_layers=2,
    full_attention_every=2,
    d_model=16,
    num_heads=2,
    num_kv_heads=1,
    num_experts=3,
    d_expert=8,
    d_shared_expert=8,
    attention_bias=True,
)
SPECS: list[ModelSpec] = [LLAMA, QWEN, QWEN_MOE, HYBRID, HYBRID_MOE]
NAMES = ["llama", "qwen3", "qwen3_moe", "qwen3_5", "qwen3_5_moe"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved mixture of experts: every kind of tensor there is."""
    save_model(tmp_path, QWEN_MOE, build_model(QWEN_MOE, VOCAB, seed=0).state_dict(), token_ids={"eos_token_id": 2})
    return tmp_path


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = safetensors_torch.load_file(path)
    change(tensors)
    safetensors_torch.save_file(tensors, path)


def complaint(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    assert "allowed:" in str(caught.value)
    assert "hint:" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_loads_as_it_was(spec: ModelSpec, dtype: torch.dtype, tmp_path: Path) -> None:
    state = build_model(spec, VOCAB, seed=0).to(dtype).state_dict()
    save_model(tmp_path, spec, state)
    loaded_spec, loaded = load_model(tmp_path, dtype)
    assert loaded_spec.model_copy(update={"head_dim": spec.head_dim}) == spec
    assert loaded_spec.head_width == spec.head_width
    assert loaded.keys() == state.keys()
    assert all(loaded[name].dtype is dtype and torch.equal(loaded[name], state[name]) for name in state)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_the_rotary_settings_of_earlier_transformers_are_read_too(spec: ModelSpec) -> None:
    config = config_of_spec(spec, VOCAB, "float32")
    del config["rope_parameters"]  # a hybrid's `partial_rotary_factor` stands outside it too
    assert spec_of_config(config) == spec.model_copy(update={"head_dim": spec.head_width})


def test_a_model_of_several_files_is_read_through_its_index(folder: Path) -> None:
    spec, whole = load_model(folder)
    tensors = safetensors_torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = list(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, held in shards.items():
        safetensors_torch.save_file({name: tensors[name] for name in held}, folder / file)
    index = {"metadata": {}, "weight_map": {name: file for file, held in shards.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    again_spec, again = load_model(folder)
    assert again_spec == spec
    assert all(torch.equal(again[name], whole[name]) for name in whole)
    (folder / "b.safetensors").unlink()
    assert "b.safetensors` cannot be read, got no such file" in complaint(folder)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.pop("model.layers.1.mlp.experts.2.up_proj.weight"))
    assert "tensors are missing, got `model.layers.1.mlp.experts.2.up_proj.weight`;" in complaint(folder)


def test_a_tensor_that_is_left_over_is_named(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"model.layers.0.mlp.shared_expert.up_proj.weight": torch.zeros(2)}))
    assert "left over, got `model.layers.0.mlp.shared_expert.up_proj.weight`;" in complaint(folder)


def test_many_missing_tensors_are_counted(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=3)
    # a layer has 2 norms, 4 projections, 2 head norms, 1 router and 3 x 3 expert tensors: 18
    assert "and 15 more" in complaint(folder)


def test_a_wrong_shape_names_both_shapes(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"model.norm.weight": torch.ones(15)}))
    assert "`model.norm.weight` has another shape than config.json says, got (15,); allowed: (16,)" in complaint(folder)


def test_a_tied_head_may_be_written_out_but_must_be_the_embedding(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    load_model(folder)
    edit_tensors(folder, lambda t: t["lm_head.weight"].add_(1))
    assert "left over, got `lm_head.weight`" in complaint(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["Qwen3MoEForCausalLM"]}, ["architecture", "did you mean `Qwen3MoeForCausalLM`?"]),
        ({"architectures": ["GPT2LMHeadModel"]}, ["got `GPT2LMHeadModel`", "LlamaForCausalLM"]),
        ({"architectures": None}, ["got `none`"]),
        ({"architectures": "GPT2LMHeadModel"}, ["got `GPT2LMHeadModel`"]),
        ({"layer_types": 4}, ["of another kind than transformers writes", "not iterable"]),
        ({"rope_parameters": [1]}, ["of another kind than transformers writes", "list"]),
        ({"hidden_act": "gelu"}, ["`hidden_act`", "got gelu", "silu"]),
        ({"use_sliding_window": True}, ["does not know: `use_sliding_window`", "got True"]),
        ({"layer_types": ["full_attention", "sliding_attention"]}, ["`layer_types`", "sliding_attention"]),
        ({"mlp_only_layers": [0]}, ["`mlp_only_layers`", "got [0]"]),
        ({"quantization_config": {"bits": 4}}, ["`quantization_config`"]),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
            ["rotary scaling", "got `yarn`", "default, llama3"],
        ),
        ({"hidden_size": "16"}, ["`d_model`"]),
        ({"num_experts_per_tok": 0}, ["`top_k`", "got 0"]),
        ({"vocab_size": None}, ["`vocab_size`", "got None"]),
    ],
)
def test_a_configuration_the_engine_would_compute_otherwise_is_refused(
    folder: Path, changes: dict[str, Any], words: list[str]
) -> None:
    edit_config(folder, **changes)
    message = complaint(folder)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.json", "{", "is not JSON"),
        ("config.json", "[]", "is not a table"),
        ("config.json", '{"architectures": ["LlamaForCausalLM"]}', "lacks 'num_hidden_layers'"),
        ("model.safetensors", "GARBAGE", "is damaged"),
        ("model.safetensors.index.json", "{}", "no weight_map"),
    ],
)
def test_a_damaged_file_is_told_as_such(folder: Path, file: str, text: str, words: str) -> None:
    if file.endswith("index.json"):
        (folder / "model.safetensors").unlink()
    (folder / file).write_text(text)
    assert words in complaint(folder)


def test_whole_numbers_are_no_weights(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"model.norm.weight": torch.ones(16, dtype=torch.int8)}))
    assert "`model.norm.weight` has numbers that are no weights by themselves, got I8" in complaint(folder)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_weight_that_is_not_finite_is_named(folder: Path, broken: float) -> None:
    edit_tensors(folder, lambda t: t["model.norm.weight"][3:4].fill_(broken))
    assert "`model.norm.weight` is not finite" in complaint(folder)


def test_one_file_goes_before_an_index_that_was_left_beside_it(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"model.norm.weight": "gone.safetensors"}})
    )
    assert load_model(folder)[0] == QWEN_MOE.model_copy(update={"head_dim": QWEN_MOE.head_width})


def test_a_folder_that_is_none_is_told_as_such(tmp_path: Path) -> None:
    assert "config.json` cannot be read, got No such file" in complaint(tmp_path / "nowhere")


def test_a_shape_without_an_architecture_is_not_saved(tmp_path: Path) -> None:
    spec = QWEN_MOE.model_copy(update={"d_shared_expert": 8})
    with pytest.raises(ModelError, match="no architecture of this shape"):
        save_model(tmp_path, spec, build_model(spec, VOCAB, seed=0).state_dict())
    assert not list(tmp_path.iterdir())


def test_a_hybrid_without_the_shared_expert_or_the_scaling_that_transformers_has_is_not_saved(tmp_path: Path) -> None:
    for changes in ({"d_shared_expert": None}, {"norm_topk_prob": False}):
        spec = HYBRID_MOE.model_copy(update=changes)
        with pytest.raises(ModelError, match="no architecture of this shape"):
            save_model(tmp_path, spec, build_model(spec, VOCAB, seed=0).state_dict())


def test_a_hybrid_with_another_attention_is_not_saved(tmp_path: Path) -> None:
    spec = HYBRID.model_copy(update={"attention_gate": False})
    with pytest.raises(ModelError, match="no hybrid of this shape"):
        save_model(tmp_path, spec, build_model(spec, VOCAB, seed=0).state_dict())


def saved_hybrid(folder: Path) -> dict[str, torch.Tensor]:
    """Save a hybrid whose weights are all different, and return them."""
    model = build_model(HYBRID_MOE, VOCAB, seed=0)
    with torch.no_grad():
        for number, param in enumerate(model.parameters()):
            param.add_(torch.rand(param.shape, generator=torch.Generator().manual_seed(number)) / 4)
    save_model(folder, HYBRID_MOE, model.state_dict())
    return model.state_dict()


def test_a_file_of_a_hybrid_has_head_by_head_a_query_and_its_gate_and_norms_around_zero(tmp_path: Path) -> None:
    state = saved_hybrid(tmp_path)
    file = safetensors_torch.load_file(tmp_path / "model.safetensors")
    ours = state["blocks.1.attention.qkv.weight"]  # 2 heads of 8: queries 0-15, key 16-23, value 24-31, gates 32-47
    theirs = file["model.layers.1.self_attn.q_proj.weight"]
    assert torch.equal(theirs, torch.cat((ours[0:8], ours[32:40], ours[8:16], ours[40:48])))
    assert torch.equal(file["model.layers.1.self_attn.v_proj.weight"], ours[24:32])
    assert torch.equal(file["model.norm.weight"], state["norm.weight"] - 1)
    assert torch.equal(file["model.layers.0.linear_attn.norm.weight"], state["blocks.0.attention.norm.weight"])
    assert file["model.layers.0.linear_attn.conv1d.weight"].shape == (HYBRID_MOE.conv_channels, 1, 4)


def test_stacked_experts_and_the_text_part_of_a_model_that_also_sees_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = saved_hybrid(tmp_path)

    def publish(tensors: dict[str, torch.Tensor]) -> None:
        for layer in (0, 1):
            prefix = f"model.layers.{layer}.mlp.experts."
            for name in [name for name in tensors if name.startswith(prefix)]:
                del tensors[name]
            tensors[prefix + "gate_up_proj"] = state[f"blocks.{layer}.ffn.gate_up"]
            tensors[prefix + "down_proj"] = state[f"blocks.{layer}.ffn.down"]
        for name in [name for name in tensors if name.startswith("model.")]:
            tensors[name.replace("model.", "model.language_model.", 1)] = tensors.pop(name)
        tensors.update({"model.visual.patch.weight": torch.zeros(2), "mtp.fc.weight": torch.zeros(2)})

    edit_tensors(tmp_path, publish)
    text = json.loads((tmp_path / "config.json").read_text())
    del text["architectures"], text["tie_word_embeddings"]
    outer = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "tie_word_embeddings": True, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps({**outer, "image_token_id": 5, "text_config": text}))
    spec, loaded = load_model(tmp_path)
    assert spec == HYBRID_MOE.model_copy(update={"head_dim": 8})
    assert all(torch.equal(loaded[name], state[name]) for name in state)
    assert "2 tensors of vision and of guessing further tokens are left out" in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer_types": ["full_attention", "linear_attention"]}, ["`layer_types`", "every k-th layer"]),
        ({"layer_types": ["linear_attention"]}, ["`layer_types`", "one entry per layer"]),
        ({"attn_output_gate": False}, ["`attn_output_gate`", "got False"]),
        ({"rope_parameters": {"partial_rotary_factor": 0.375}}, ["0.375 of 8: 3.0 numbers"]),
        ({"linear_num_key_heads": "2"}, ["`linear_key_heads`"]),
        ({"mlp_only_layers": [1]}, ["`mlp_only_layers`"]),
    ],
)
def test_a_hybrid_the_engine_would_compute_otherwise_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    saved_hybrid(tmp_path)
    edit_config(tmp_path, **changes)
    message = complaint(tmp_path)
    assert all(word in message for word in words), message
