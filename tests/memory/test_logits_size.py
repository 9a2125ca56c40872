from typing import Any

import pytest

from steptune.memory.logits import logits_text, micro_tokens, vocab_size
from steptune.memory.settings import view_of
from steptune.memory.tables import framework_rules, vocab_rules
from steptune.published.declared import normal_key
from steptune.published.keys import known_keys, renames


@pytest.mark.parametrize(
    ("model", "vocab"),
    [
        ("Qwen/Qwen3-8B", 151_936),
        ("/data/Qwen2.5-7B-Instruct", 152_064),
        ("Qwen2.5-0.5B", 151_936),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", 152_064),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 128_256),
        ("meta-llama/Llama-3.1-70B", 128_256),
        ("Qwen/Qwen3.5-35B-A3B", 248_320),
        ("someone/else", None),
    ],
)
def test_a_models_vocabulary_is_known_by_its_name(model: str, vocab: int | None, oom_paste: Any) -> None:
    view = view_of(oom_paste(framework="verl", settings={"actor_rollout_ref.model.path": model}))
    assert vocab_size(view) == vocab


def test_every_vocabulary_names_its_source() -> None:
    assert all(rule.source.startswith("https://") for rule in vocab_rules())


def test_tensor_parallelism_splits_the_vocabulary(oom_paste: Any) -> None:
    # 16,384 tokens x 151,936 x 4 bytes / 4 devices = 2.3 GiB
    settings = {
        "actor_rollout_ref.model.path": "Qwen3-8B",
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 4,
    }
    view = view_of(oom_paste(framework="verl", settings=settings))
    assert micro_tokens(view) == 16_384
    text = logits_text(view)
    assert text is not None
    assert "2.3 GiB" in text
    assert "over 4 devices" in text


def test_lengths_that_are_not_set_give_no_size(oom_paste: Any) -> None:
    settings = {"actor_rollout_ref.model.path": "Qwen3-8B", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4}
    assert logits_text(view_of(oom_paste(framework="verl", settings=settings))) is None


def test_every_key_the_advice_reads_exists_or_existed() -> None:
    legacy = {"trl": {"max_prompt_length", "model", "model_name"}, "slime": {"sglang_mem_fraction_static"}}
    for name, rule in framework_rules().items():
        known = {normal_key(key) for key in known_keys(name)} | {normal_key(one.old) for one in renames(name)}
        keys = (
            *rule.sequence_keys,
            *rule.model_keys,
            *rule.micro_keys,
            *rule.budget_keys,
            *rule.budget_when,
            *rule.vocab_split_keys,
            *rule.share_keys,
        )
        missing = {normal_key(key) for key in keys} - known - legacy.get(name, set())
        assert not known or not missing, (name, missing)
