"""Held-out accuracy: known policies get the known score."""

from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.core.errors import HealthError
from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, MathWorkload
from steptune.core.model import HybridModel, ModelSpec, MoEModel
from steptune.engine import evaluate as module
from steptune.engine import evaluation_rows
from steptune.engine.evaluate import evaluate, held_out
from steptune.engine.evaluation_rows import LOGITS_COPIES, evaluation_row_bytes
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import RolloutBatch, RolloutTrace

JOB = JobSpec(
    name="tiny",
    model=DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=24),
    workload=MathWorkload(levels=(1, 2), num_validation=40),
    algorithm=AlgorithmSpec(max_completion_len=30),
)


def model() -> Transformer:
    return build_model(JOB.model, TOKENIZER.vocab_size, seed=1)


def replaced(batch: RolloutBatch, texts: list[str]) -> RolloutBatch:
    """Return the batch with other completions."""
    rows = [TOKENIZER.encode_completion(text) for text in texts]
    width = max(map(len, rows))
    tokens: Tensor = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return RolloutBatch(
        prompts=batch.prompts,
        completion_BT=tokens,
        lengths_B=torch.tensor([len(row) for row in rows]),
        logprobs_BT=torch.zeros(tokens.shape),
        versions_BT=torch.zeros(tokens.shape, dtype=torch.int32),
        finished_B=torch.ones(len(rows), dtype=torch.bool),
        entropy=0.0,
    )


def test_an_untrained_policy_scores_nothing_and_rambles() -> None:
    found = evaluate(model(), JOB, step=3)
    assert (found.step, found.num_problems, found.greedy_accuracy) == (3, 40, None)
    assert found.accuracy < 0.1
    assert found.completion_len_mean > 10
    assert 0 < found.truncated_frac < 1


def test_the_share_of_right_answers_is_the_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = held_out(40, 1, (1, 2))
    # every fourth answer is one too large: 30 of 40 are right
    texts = [f"#{problem.answer + (i % 4 == 0)}" for i, problem in enumerate(problems)]
    original = module._answers
    monkeypatch.setattr(module, "_answers", lambda *args, **named: replaced(original(*args, **named), texts))
    found = evaluate(model(), JOB, step=0, with_greedy=True)
    assert found.accuracy == pytest.approx(0.75)
    assert found.greedy_accuracy == pytest.approx(0.75)
    assert found.truncated_frac == 0
    assert found.completion_len_mean == pytest.approx(sum(len(text) + 1 for text in texts) / 40)


def test_the_same_weights_score_the_same_twice() -> None:
    assert evaluate(model(), JOB, step=0) == evaluate(model(), JOB, step=0)


def test_fewer_rows_at_once_are_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, generate = list[tuple[int, ...]](), RolloutEngine.generate

    def watched(self: RolloutEngine, *args: Any, **named: Any) -> tuple[RolloutBatch, RolloutTrace]:
        made = generate(self, *args, **named)
        seen.append(made[1].running_I)
        return made

    monkeypatch.setattr(RolloutEngine, "generate", watched)
    whole = evaluate(model(), JOB, step=0)
    longest = max(len(TOKENIZER.encode_prompt(problem.text)) for problem in held_out(40, 1, (1, 2))) + 30
    row_bytes = evaluation_row_bytes(JOB.model, num_tokens=TOKENIZER.vocab_size, longest=longest)
    monkeypatch.setattr(evaluation_rows, "MAX_BYTES", 7.5 * row_bytes)
    assert evaluate(model(), JOB, step=0) == whole
    assert [max(rows) for rows in seen] == [40, 7]


SHAPES = (
    JOB.model,
    MoEModel(num_layers=3, d_model=16, num_heads=2, num_kv_heads=1, num_experts=2, top_k=1, d_expert=8),
    HybridModel(num_layers=8, d_model=16, num_heads=2, num_kv_heads=1, d_ff=24),
)


@pytest.mark.parametrize("spec", SHAPES, ids=["dense", "moe", "hybrid"])
def test_a_rows_bytes_are_those_of_its_cache_and_its_logits(spec: ModelSpec) -> None:
    one, three = (KVCache(spec, rows, 40, torch.float32, torch.device("cpu")) for rows in (1, 3))
    of_cache = sum(more.nbytes - less.nbytes for less, more in zip(tensors_of(one), tensors_of(three), strict=True))
    row_bytes = evaluation_row_bytes(spec, num_tokens=50, longest=40)
    assert row_bytes == of_cache // 2 + 4 * 50 * LOGITS_COPIES


def tensors_of(cache: KVCache) -> tuple[Tensor, ...]:
    return (cache.data,) if cache.states is None else (cache.data, cache.states.memory, cache.states.tail)


def test_at_least_one_row_runs_and_never_more_than_there_are_problems() -> None:
    rows = evaluation_rows.evaluation_rows
    assert rows(JOB.model, num_problems=9, num_tokens=50, longest=40) == 9
    assert rows(JOB.model, num_problems=9999, num_tokens=50, longest=40) == evaluation_rows.MAX_ROWS
    assert rows(JOB.model, num_problems=9999, num_tokens=10**9, longest=40) == 1


def test_weights_that_give_nan_are_refused() -> None:
    broken = model()
    with torch.no_grad():
        broken.norm.weight.fill_(torch.nan)
    with pytest.raises(HealthError):
        evaluate(broken, JOB, step=0)
