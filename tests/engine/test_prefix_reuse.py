"""A turn that goes on from an earlier one says what it would have said anew, and nothing wrong is ever reused."""

from collections.abc import Sequence

import pytest
import torch

from steptune.core.job import DenseModel
from steptune.core.model import HybridMoEModel, MoEModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.prefix_store import PrefixStore, StoredPrefix
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace

VOCAB, PAD, EOS, MAX_LEN = 24, 0, 2, 6
SPECS = {
    "dense": DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, d_ff=48),
    "moe": MoEModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, num_experts=4, top_k=2, d_expert=16),
    "hybrid": HybridMoEModel(
        num_layers=4, d_model=32, num_heads=4, num_kv_heads=2, head_dim=8, num_experts=4, d_expert=16
    ),
}


def engine(family: str, seed: int = 0, **knobs: object) -> RolloutEngine:
    settings = {"reuse_prefixes": True, **knobs}
    made = RolloutEngine(SPECS[family], EngineKnobs.model_validate(settings), vocab_size=VOCAB, pad_id=PAD, eos_id=EOS)
    made.load(weights(family, seed), version=1)
    return made


def weights(family: str, seed: int = 0) -> dict[str, torch.Tensor]:
    state = build_model(SPECS[family], VOCAB, seed=seed).state_dict()
    return {name: tensor * 6 if tensor.ndim == 2 else tensor for name, tensor in state.items()}


def batch_of(prompts: Sequence[Sequence[int]], group_size: int = 1) -> PromptBatch:
    width = max(map(len, prompts))
    index = torch.arange(len(prompts)).repeat_interleave(group_size)
    return PromptBatch(
        tokens_BP=torch.tensor([[*p, *[PAD] * (width - len(p))] for p in prompts])[index],
        lengths_B=torch.tensor([len(p) for p in prompts])[index],
        group_B=index,
        problem_B=index,
        sample_B=torch.arange(group_size).repeat(len(prompts)),
    )


def generate(
    made: RolloutEngine, prompts: Sequence[Sequence[int]], group_size: int = 1, **how: object
) -> tuple[RolloutBatch, RolloutTrace]:
    return made.generate(batch_of(prompts, group_size), max_completion_len=MAX_LEN, temperature=1.0, seed=3, **how)  # type: ignore[arg-type]


def conversations(batch: RolloutBatch, more: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return every row's prompt and completion, with new tokens behind."""
    rows: list[list[int]] = []
    for row, new in enumerate(more):
        prompt = batch.prompts.tokens_BP[row, : batch.prompts.lengths_B[row]].tolist()
        rows.append([*prompt, *batch.completion_BT[row, : batch.lengths_B[row]].tolist(), *new])
    return rows


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("family", SPECS)
def test_later_turns_say_what_a_fresh_engine_says(family: str, continuous: bool) -> None:
    made = engine(family, compact_finished=continuous, rollout_concurrency=3)
    prompts: list[list[int]] = [[1, 5, 6], [1, 7], [1, 9, 4, 8, 3]]
    for turn in range(3):
        batch, trace = generate(made, prompts, group_size=2)
        fresh, plain = generate(engine(family, reuse_prefixes=False), prompts, group_size=2)
        assert torch.equal(batch.completion_BT, fresh.completion_BT)
        assert torch.allclose(batch.logprobs_BT, fresh.logprobs_BT, atol=1e-4)
        assert plain.reused_tokens == 0
        # all but the last token of a completion was fed, and one row of each group goes on
        assert trace.reused_tokens == (sum(len(p) - 3 for p in prompts) if turn else 0)
        rows = conversations(batch, [[10, 11], [12, 13]] * 3)
        prompts = rows[::2]
    assert (made.prefixes.num_hits, made.prefixes.num_misses) == (6, 3)


def test_a_first_turn_beside_a_later_one_is_computed_in_full() -> None:
    made = engine("hybrid")
    first, _ = generate(made, [[1, 5, 6]])
    prompts = [*conversations(first, [[10]]), [1, 8, 8, 9, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]
    batch, trace = generate(made, prompts)
    fresh, _ = generate(engine("hybrid", reuse_prefixes=False), prompts)
    assert trace.reused_tokens == len(prompts[0]) - 2
    assert torch.equal(batch.completion_BT, fresh.completion_BT)
    assert torch.allclose(batch.logprobs_BT, fresh.logprobs_BT, atol=1e-4)


@pytest.mark.parametrize("family", SPECS)
def test_new_weights_drop_every_turn(family: str) -> None:
    made = engine(family)
    first, _ = generate(made, [[1, 5, 6]])
    prompts = conversations(first, [[10]])
    made.load(weights(family, seed=9), version=2)
    assert len(made.prefixes) == 0
    batch, trace = generate(made, prompts)
    fresh, _ = generate(engine(family, seed=9, reuse_prefixes=False), prompts)
    assert trace.reused_tokens == 0
    assert torch.equal(batch.completion_BT, fresh.completion_BT)


def test_history_that_was_rewritten_is_computed_anew() -> None:
    made = engine("dense")
    first, _ = generate(made, [[1, 5, 6]])
    (prompt,) = conversations(first, [[10, 11]])
    prompt[1] = 7
    batch, trace = generate(made, [prompt])
    fresh, _ = generate(engine("dense", reuse_prefixes=False), [prompt])
    assert trace.reused_tokens == 0
    assert torch.equal(batch.completion_BT, fresh.completion_BT)


def test_a_prompt_that_ends_inside_a_stored_turn_does_not_use_it() -> None:
    made = engine("hybrid")
    first, _ = generate(made, [[1, 5, 6]], forced_lengths_B=torch.tensor([6]))
    (whole,) = conversations(first, [[]])
    _, trace = generate(made, [whole[:5]])
    assert trace.reused_tokens == 0


def test_a_prompt_that_is_a_stored_turn_and_one_token_computes_nothing() -> None:
    made = engine("dense")
    first, _ = generate(made, [[1, 5, 6]])
    prompts = conversations(first, [[]])  # its last token has not been fed yet
    batch, trace = generate(made, prompts)
    fresh, _ = generate(engine("dense", reuse_prefixes=False), prompts)
    assert (trace.prefill_tokens, trace.reused_tokens) == (0, len(prompts[0]) - 1)
    assert torch.equal(batch.completion_BT, fresh.completion_BT)


def test_scoring_and_engines_without_the_knob_keep_nothing() -> None:
    made = engine("dense", reuse_prefixes=False)
    batch, _ = generate(made, [[1, 5, 6]])
    assert len(made.prefixes) == 0
    made = engine("dense")
    made.score(batch.prompts, batch.completion_BT, batch.lengths_B, temperature=1.0)
    assert len(made.prefixes) == 0


def stored(num_tokens: int, version: int = 1) -> StoredPrefix:
    return StoredPrefix(num_tokens=num_tokens, version=version, kv=torch.zeros(1), states=None)


def test_the_store_finds_the_longest_turn_of_its_version_by_exact_ids() -> None:
    store = PrefixStore()
    store.put((1, 2), stored(2))
    store.put((1, 2, 3), stored(3))
    store.put((1, 2, 3, 4), stored(4, version=2))
    assert store.longest([1, 2, 3, 4, 5], version=1) == stored(3)
    assert store.longest([1, 2, 4], version=1) == stored(2)
    assert store.longest([1], version=1) is None
    assert store.longest([2, 1], version=1) is None
    assert (store.num_hits, store.num_misses) == (2, 2)


def test_the_oldest_turn_goes_when_the_store_is_full() -> None:
    store = PrefixStore(max_tokens=5)
    for tokens in ((1, 2), (3, 4, 5), (6, 7)):
        store.put(tokens, stored(len(tokens)))
    assert store.longest([1, 2], version=1) is None
    assert store.longest([3, 4, 5], version=1) is not None
    assert store.longest([6, 7], version=1) is not None
