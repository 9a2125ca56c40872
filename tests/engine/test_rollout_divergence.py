"""The first token at which two rollouts of one batch part, and that only rounding parts them."""

from dataclasses import replace

import pytest
import torch
from test_rollout import EOS, MAX_LEN, MODEL, PAD, SPEC, VOCAB, prompt_batch

from steptune.engine.divergence import divergence
from steptune.engine.knobs import EngineKnobs
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import RolloutBatch

COMPOSITIONS: list[dict[str, object]] = [
    {"compact_finished": True},
    {"rollout_concurrency": 7, "share_prefill": True},
    {"rollout_concurrency": 5, "share_prefill": True, "compact_finished": True, "admit_order": "longest_first"},
]


def rollout(**knobs: object) -> RolloutBatch:
    engine = RolloutEngine(SPEC, EngineKnobs.model_validate(knobs), vocab_size=VOCAB, pad_id=PAD, eos_id=EOS)
    engine.load(MODEL.state_dict(), version=0)
    prompts = prompt_batch((3, 6, 1, 4), group_size=8)
    return engine.generate(prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=5)[0]


def test_a_rollout_does_not_differ_from_itself() -> None:
    batch = rollout()
    same = divergence(batch, batch)
    assert (same.rows_frac, same.per_token, same.max_logprob_gap) == (0, 0, 0)
    assert same.num_same_tokens == int(batch.lengths_B.sum())
    assert str(same) == "0 of 32 rows differ (0 per token)"


def test_only_the_first_other_token_counts_and_an_earlier_end_is_one() -> None:
    batch = rollout()
    long = [row for row, length in enumerate(batch.lengths_B.tolist()) if length >= 4]
    tokens, lengths = batch.completion_BT.clone(), batch.lengths_B.clone()
    tokens[long[0], 1] = tokens[long[0], 3] = VOCAB - 1 - tokens[long[0], 1].clamp(max=1)
    lengths[long[1]] = 3
    tokens[long[1], 3:] = PAD
    found = divergence(batch, replace(batch, completion_BT=tokens, lengths_B=lengths))
    assert found.first_tokens == (1, 3)
    assert found.rows_frac == 2 / 32
    same = int(batch.lengths_B.sum() - batch.lengths_B[long[0]] - batch.lengths_B[long[1]]) + 1 + 3
    assert found.num_same_tokens == same
    assert found.per_token == pytest.approx(2 / (same + 2))
    assert str(found).endswith("first at token 2 (median)")


def test_batch_composition_changes_nothing_but_rounding() -> None:
    plain = rollout()
    for knobs in COMPOSITIONS:
        found = divergence(plain, rollout(**knobs))
        assert found.first_tokens == ()
        assert found.max_logprob_gap < 1e-5


def test_bf16_parts_some_rows_and_until_then_only_rounds() -> None:
    found = divergence(rollout(), rollout(rollout_dtype="bf16"))
    assert 0 < found.rows_frac < 0.5
    assert 1e-5 < found.max_logprob_gap < 0.3
    assert torch.tensor(found.first_tokens).min() >= 0
