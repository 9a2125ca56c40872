"""A conversation stays with the replica that holds its earlier turns."""

import sys
from pathlib import Path
from typing import Any

import torch

from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.produce import rollout_engine
from steptune.engine.replicas.replica_set import ReplicaSet
from steptune.engine.replicas.wire import ReplicaWire
from steptune.engine.rollouts import Rollouts
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace
from steptune.engine.weights import SharedWeights
from steptune.engine.worker import worker_spec

sys.path.insert(0, str(Path(__file__).parents[1]))
from inline_worker import InlineReplica
from loop_cases import small_job

HOW: dict[str, Any] = {"max_completion_len": 6, "temperature": 1.0, "seed": 3}


def batch_of(prompts: dict[int, list[int]]) -> PromptBatch:
    """Return one row for each conversation, by its problem's number."""
    width, index = max(map(len, prompts.values())), torch.arange(len(prompts))
    return PromptBatch(
        tokens_BP=torch.tensor([[*row, *[0] * (width - len(row))] for row in prompts.values()]),
        lengths_B=torch.tensor([len(row) for row in prompts.values()]),
        group_B=index,
        problem_B=torch.tensor(list(prompts)),
        sample_B=torch.zeros_like(index),
    )


def generate(engine: Rollouts, prompts: dict[int, list[int]]) -> tuple[RolloutBatch, RolloutTrace]:
    return engine.generate(batch_of(prompts), forced_lengths_B=torch.full((len(prompts),), 6), **HOW)


def test_a_later_turn_finds_what_its_replica_kept_in_whatever_order_the_turns_come(tmp_path: Path) -> None:
    knobs = EngineKnobs(reuse_prefixes=True, rollout_replicas=2, rollout_threads=1)
    job, model = small_job(), new_model(small_job())
    channel = SharedWeights(model)
    own = rollout_engine(job, knobs)
    second = InlineReplica(worker_spec(job, knobs, 1, None, tmp_path, replica=1), channel)
    several = ReplicaSet(own, [ReplicaWire(second)], Recorder())
    fresh = rollout_engine(job, EngineKnobs())
    channel.write(model.state_dict(), 1)
    several.load(model.state_dict(), 1)
    fresh.load(model.state_dict(), 1)
    turns = {7: [5, 6, 8], 4: [5, 7], 9: [5, 9, 4, 8, 3], 2: [5, 4, 4]}
    for order in ([7, 4, 9, 2], [4, 7, 2, 9], [9, 7]):
        prompts = {problem: turns[problem] for problem in order}
        batch, trace = generate(several, prompts)
        plain, _ = generate(fresh, prompts)
        assert torch.equal(batch.completion_BT, plain.completion_BT)
        assert torch.allclose(batch.logprobs_BT, plain.logprobs_BT, atol=1e-5)
        # a prompt goes on from a whole turn but for its last token, which had not been fed, and two new ones
        assert trace.reused_tokens == (0 if order[0] == 7 else sum(len(turns[p]) - 3 for p in order))
        for row, problem in enumerate(order):
            turns[problem] = [*turns[problem], *batch.completion_BT[row].tolist(), 10, 11]
    assert own.prefixes.num_misses + second.replica.engine.prefixes.num_misses == 4
    # new weights drop every turn, and with them the reason to stay
    channel.write(model.state_dict(), 2)
    several.load(model.state_dict(), 2)
    _, trace = generate(several, {7: turns[7], 9: turns[9]})
    assert trace.reused_tokens == 0
    second.close()
