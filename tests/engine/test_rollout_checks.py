"""A rollout refuses what cannot be before it computes anything."""

from typing import Any

import pytest
import torch

from steptune.core.errors import JobError
from steptune.core.job import DenseModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch

SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)


def engine(**given: Any) -> RolloutEngine:
    return RolloutEngine(SPEC, EngineKnobs(), vocab_size=10, **{"pad_id": 0, "eos_id": 2, **given})


def prompts(tokens: list[int], length: int | None = None) -> PromptBatch:
    zero = torch.zeros(1, dtype=torch.int64)
    return PromptBatch(
        tokens_BP=torch.tensor([tokens]),
        lengths_B=zero + (len(tokens) if length is None else length),
        group_B=zero,
        problem_B=zero,
        sample_B=zero,
    )


@pytest.mark.parametrize("token", [10, -1])
def test_a_token_without_an_embedding_is_refused(token: int) -> None:
    with pytest.raises(JobError, match=f"got token {token}; allowed: 0 to 9; hint: use the tokenizer"):
        engine().generate(prompts([3, token]), max_completion_len=2, temperature=1.0, seed=0)


@pytest.mark.parametrize("special", [{"eos_id": 10}, {"pad_id": -1}, {"other_eos_ids": (3, 10)}])
def test_a_tokenizer_of_another_vocabulary_is_refused(special: dict[str, Any]) -> None:
    with pytest.raises(JobError, match=r"does not fit the model, got (10|-1); allowed: 0 to 9"):
        engine(**special)


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(JobError, match="at least one token"):
        engine().generate(prompts([3, 4], length=0), max_completion_len=2, temperature=1.0, seed=0)


def test_lengths_beyond_the_context_are_refused_and_the_last_one_inside_is_not() -> None:
    made = engine(context_len=6)
    with pytest.raises(
        JobError, match=r"got 4 \+ 3 tokens; allowed: 6 together; hint: use a completion length of at most 2"
    ):
        made.generate(prompts([3, 4, 5, 6]), max_completion_len=3, temperature=1.0, seed=0)
    batch, _ = made.generate(prompts([3, 4, 5, 6]), max_completion_len=2, temperature=1.0, seed=0)
    assert int(batch.lengths_B) <= 2


def test_a_token_beyond_the_tokenizer_is_a_prompt_where_the_embedding_has_a_row_for_it() -> None:
    spec = SPEC.model_copy(update={"padded_vocab": 16})
    made = RolloutEngine(spec, EngineKnobs(), vocab_size=10, pad_id=0, eos_id=2)
    batch, _ = made.generate(prompts([3, 15]), max_completion_len=2, temperature=1.0, seed=0)
    assert int(batch.lengths_B) >= 1
    with pytest.raises(JobError, match="got token 16; allowed: 0 to 15"):
        made.generate(prompts([3, 16]), max_completion_len=2, temperature=1.0, seed=0)
