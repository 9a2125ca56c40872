"""The rollout's experts in the trainer: recorded for every position that was fed, replayed in every layout."""

from pathlib import Path
from typing import Any

import pytest
import torch
from inline_worker import inline_one_step_off
from loop_cases import small_job, small_loop

from steptune.core.model import MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.gap import gap_stats
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import PAD, TOKENIZER, join_batches, prompt_batch, take_rows
from steptune.engine.rollout import RolloutEngine
from steptune.engine.routes import NOT_RECORDED, RouteTape
from steptune.engine.trainer import Trainer
from steptune.engine.types import RolloutBatch

SPEC = MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=6, top_k=2, d_expert=8)
JOB = small_job().model_copy(update={"model": SPEC})
VOCAB = TOKENIZER.vocab_size


def lively(seed: int = 0) -> Transformer:
    """Return a model whose routers are decided and whose tokens differ in likelihood."""
    model = build_model(SPEC, VOCAB, seed)
    with torch.no_grad():
        for param in model.parameters():
            if param.ndim >= 2:
                param.mul_(6)
    return model


def rollout(model: Transformer, **knobs: object) -> RolloutBatch:
    settings = EngineKnobs.model_validate({"router_replay": True, **knobs})
    engine = RolloutEngine(SPEC, settings, vocab_size=VOCAB, pad_id=PAD, eos_id=TOKENIZER.eos_id)
    engine.load(model.state_dict(), 0)
    prompts = prompt_batch(["1+2=", "30+4=", "5="], range(3), group_size=4)
    return engine.generate(prompts, max_completion_len=6, temperature=1.0, seed=0)[0]


def routes_of(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    """Return the experts [L, J, k] of a plain forward."""
    tape = RouteTape()
    with torch.no_grad():
        context = Context(attend=attend_runs([Run(len(tokens), 1)]), routes=tape)
        model.hidden(tokens, torch.arange(len(tokens)), context)
    return torch.stack([tape.choices[layer] for layer in (0, 1)], dim=1)


@pytest.mark.parametrize(
    "levers",
    [
        {},
        {"share_prefill": True},
        {"compact_finished": True, "rollout_concurrency": 4},
        {"share_prefill": True, "compact_finished": True, "rollout_concurrency": 2},
    ],
)
def test_every_position_but_the_last_has_the_experts_of_a_plain_forward(levers: dict[str, object]) -> None:
    model = lively()
    batch = rollout(model, **levers)
    assert batch.routes_BLJk is not None
    for row in range(len(batch.lengths_B)):
        prompt, length = int(batch.prompts.lengths_B[row]), int(batch.lengths_B[row])
        tokens = torch.cat((batch.prompts.tokens_BP[row, :prompt], batch.completion_BT[row, :length]))
        expected = routes_of(model, tokens)[:-1]
        assert torch.equal(batch.routes_BLJk[row, : prompt + length - 1].long(), expected)


def test_without_the_knob_nothing_is_recorded() -> None:
    assert rollout(lively(), router_replay=False).routes_BLJk is None


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
def test_a_trainer_follows_the_recorded_experts_in_every_layout(layout: str) -> None:
    batch, trained = rollout(lively(seed=0)), lively(seed=1)
    knobs = EngineKnobs.model_validate({"layout": layout, "router_replay": True, "micro_batch_tokens": 40})
    trainer = Trainer(trained, JOB.algorithm, knobs, PAD)
    followed = trainer.logprobs(batch, 40)
    assert batch.routes_BLJk is not None
    for row in range(len(batch.lengths_B)):
        prompt, length = int(batch.prompts.lengths_B[row]), int(batch.lengths_B[row])
        tokens = torch.cat((batch.prompts.tokens_BP[row, :prompt], batch.completion_BT[row, :length]))
        tape = RouteTape.replaying(batch.routes_BLJk[row, : len(tokens)])
        with torch.no_grad():
            context = Context(attend=attend_runs([Run(len(tokens), 1)]), routes=tape)
            logits = trained.logits(trained.hidden(tokens, torch.arange(len(tokens)), context))
        expected = logits[prompt - 1 : -1].log_softmax(-1).gather(1, tokens[prompt:, None])[:, 0]
        torch.testing.assert_close(followed[row, :length], expected, rtol=1e-4, atol=1e-5)
    trainer.configure(knobs.model_copy(update={"router_replay": False}))
    assert (trainer.logprobs(batch, 40) - followed).abs().max() > 1e-2  # left alone it takes other experts


def test_replay_closes_a_gap_that_a_router_in_another_number_format_opens() -> None:
    model = lively()
    batch = rollout(model, rollout_dtype="bf16")
    trainer = Trainer(model, JOB.algorithm, EngineKnobs(router_replay=True), PAD)
    followed = gap_stats(trainer.logprobs(batch, 1000), batch.logprobs_BT, batch.mask_BT)
    trainer.configure(EngineKnobs())
    alone = gap_stats(trainer.logprobs(batch, 1000), batch.logprobs_BT, batch.mask_BT)
    assert followed is not None
    assert alone is not None
    # measured: 3e-6 nats per token where the trainer follows, 5e-5 where it chooses for itself
    assert followed.k3 < alone.k3 / 5


def test_an_unrecorded_position_is_left_to_the_router() -> None:
    own = torch.tensor([[3, 1], [0, 2]])
    tape = RouteTape.replaying(torch.tensor([[[4, 5]], [[NOT_RECORDED, NOT_RECORDED]]], dtype=torch.int16))
    assert tape.choose(0, own).tolist() == [[4, 5], [0, 2]]


def test_routes_stay_with_their_rows_when_batches_are_joined_and_picked() -> None:
    short, long = rollout(lively(seed=0)), rollout(lively(seed=2))
    joined = join_batches([short, long])
    picked = take_rows(joined, torch.tensor([13, 1]), group_size=1)
    assert long.routes_BLJk is not None
    assert short.routes_BLJk is not None
    assert picked.routes_BLJk is not None
    assert torch.equal(picked.routes_BLJk[0, : long.routes_BLJk.shape[1]], long.routes_BLJk[1])
    assert torch.equal(picked.routes_BLJk[1, : short.routes_BLJk.shape[1]], short.routes_BLJk[1])


@pytest.mark.parametrize("how", [{}, {"schedule": "one_step_off", "make_source": inline_one_step_off}])
def test_the_loop_runs_with_replay_on_either_schedule(tmp_path: Path, how: dict[str, Any]) -> None:
    loop = small_loop(JOB, tmp_path, router_replay=True, correction="tis", layout="packed", **how)
    steps = [loop.step() for _ in range(3)]
    loop.close()
    assert all(step.mismatch is None or step.mismatch.k3 < 1e-6 for step in steps)


def test_the_reference_model_routes_for_itself() -> None:
    algorithm = JOB.algorithm.model_copy(update={"kl_coef": 0.1})
    model, reference = lively(seed=0), lively(seed=1)
    trainer = Trainer(model, algorithm, EngineKnobs(router_replay=True), PAD, reference)
    batch = rollout(model)
    free = Trainer(reference, JOB.algorithm, EngineKnobs(), PAD).logprobs(batch, 1000)
    torch.testing.assert_close(trainer.logprobs(batch, 1000, reference), free)
