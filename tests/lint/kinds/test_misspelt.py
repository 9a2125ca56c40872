"""A slip is one word with a letter or two wrong; anything else is somebody's own key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.lint.kinds.misspelt import distance, is_slip, nearest_key
from steptune.published.keys import FRAMEWORKS, known_keys


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gpu_memory_utilisation", "gpu_memory_utilization"),
        ("train_batchsize", "train_batch_size"),
        ("num_generation", "num_generations"),
        ("max_num_batch_tokens", "max_num_batched_tokens"),
        ("rollout_max_responce_len", "rollout_max_response_len"),
    ],
)
def test_slips_are_seen(written: str, meant: str) -> None:
    assert is_slip(written, meant)


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("sglang_ep_size", "sglang_pp_size"),
        ("truncation_side", "truncation_mode"),
        ("target_modules", "lora_target_modules"),
        ("max_prompt_length", "max_response_length"),
        ("type", "dtype"),
        ("param_offload", "optimizer_offload"),
    ],
)
def test_other_keys_are_no_slips(written: str, other: str) -> None:
    assert not is_slip(written, other)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_known_key_is_taken_for_a_misspelt_one(framework: str) -> None:
    assert [key for key in known_keys(framework) if nearest_key(key.replace("-", "_"), framework)] == []


def test_a_negated_switch_is_known() -> None:
    assert nearest_key("no_remove_unused_columns", "trl") is None


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_symmetric_and_zero_only_for_equal_words(a: str, b: str) -> None:
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) is (a == b)
    assert distance(a, b) <= max(len(a), len(b))
