"""Every way of generating gives the same rollouts as the plainest one."""

import itertools

import pytest
import torch
from torch import Tensor

from steptune.core.errors import HealthError, JobError
from steptune.core.job import DenseModel
from steptune.core.phase import Role
from steptune.engine.context import Context
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutBatch

SPEC = DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, d_ff=48)
VOCAB, PAD, EOS = 12, 0, 2
MAX_LEN = 10
KNOBS = [
    EngineKnobs(rollout_concurrency=concurrency, share_prefill=share, compact_finished=compact)
    for concurrency, share, compact in itertools.product((None, 1, 5), (False, True), (False, True))
]


def short(knobs: EngineKnobs) -> str:
    """Name a parametrised case by the rollout's own levers."""
    prefill, end = "shared" if knobs.share_prefill else "own", "leave" if knobs.compact_finished else "stay"
    return f"{knobs.rollout_concurrency}-{prefill}-{end}"


def livelier(model: Transformer) -> Transformer:
    """Larger weights: tokens differ in likelihood and EOS comes at different times."""
    with torch.no_grad():
        for param in model.parameters():
            if param.ndim == 2:
                param.mul_(8)
    return model


MODEL = livelier(build_model(SPEC, VOCAB, seed=0))


def prompt_batch(lengths: tuple[int, ...] = (3, 6, 1, 4), group_size: int = 3) -> PromptBatch:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, VOCAB, (len(lengths), max(lengths)), generator=generator)
    length = torch.tensor(lengths)
    tokens[torch.arange(max(lengths)) >= length[:, None]] = PAD
    index = torch.arange(len(lengths)).repeat_interleave(group_size)
    return PromptBatch(
        tokens_BP=tokens[index],
        lengths_B=length[index],
        group_B=index,
        problem_B=index + 100,
        sample_B=torch.arange(group_size).repeat(len(lengths)),
    )


def engine_for(knobs: EngineKnobs, *other_eos_ids: int) -> RolloutEngine:
    engine = RolloutEngine(SPEC, knobs, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, other_eos_ids=other_eos_ids)
    engine.load(MODEL.state_dict(), version=7)
    return engine


def full_forward_logits(tokens_N: Tensor) -> Tensor:
    """Logits of one unpadded sequence without any cache."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del layer
        k, v = k.repeat_interleave(2, dim=-2), v.repeat_interleave(2, dim=-2)
        scores = torch.einsum("ihe,jhe->hij", q, k) * q.shape[-1] ** -0.5
        hidden = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
        return torch.einsum("hij,jhe->ihe", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)

    with torch.no_grad():
        return MODEL.logits(MODEL.hidden(tokens_N, torch.arange(len(tokens_N)), Context(attend=attend)))


def sequence(batch: RolloutBatch, row: int) -> tuple[Tensor, int]:
    """Return prompt and completion of a row, and where the completion starts."""
    prompt = batch.prompts.tokens_BP[row, : batch.prompts.lengths_B[row]]
    return torch.cat((prompt, batch.completion_BT[row, : batch.lengths_B[row]])), len(prompt)


def greedy_completion(prompt: Tensor) -> list[int]:
    tokens, new = prompt, []
    while len(new) < MAX_LEN and EOS not in new:
        new.append(int(full_forward_logits(tokens)[-1].argmax()))
        tokens = torch.cat((tokens, torch.tensor(new[-1:])))
    return new


@pytest.mark.parametrize("knobs", KNOBS, ids=short)
def test_greedy_decoding_equals_a_full_forward_per_token(knobs: EngineKnobs) -> None:
    prompts = prompt_batch()
    batch, _ = engine_for(knobs).generate(prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=1, greedy=True)
    for row in range(0, prompts.num_rows, 3):
        expected = greedy_completion(prompts.tokens_BP[row, : prompts.lengths_B[row]])
        assert batch.completion_BT[row, : batch.lengths_B[row]].tolist() == expected


@pytest.mark.parametrize("knobs", KNOBS, ids=short)
def test_a_row_ends_at_whichever_of_several_ends_comes_first(knobs: EngineKnobs) -> None:
    sampled = {"max_completion_len": MAX_LEN, "temperature": 0.8, "seed": 5}
    plain, _ = engine_for(EngineKnobs()).generate(prompt_batch(), **sampled)  # type: ignore[arg-type]
    batch, _ = engine_for(knobs, 5, 8).generate(prompt_batch(), **sampled)  # type: ignore[arg-type]
    ends = list[int]()
    for row, whole in enumerate(plain.completion_BT.tolist()):
        said = whole[: plain.lengths_B[row]]
        first = next((i + 1 for i, token in enumerate(said) if token in {EOS, 5, 8}), len(said))
        assert batch.completion_BT[row, : batch.lengths_B[row]].tolist() == said[:first]
        assert bool(batch.finished_B[row]) == (said[first - 1] in {EOS, 5, 8})
        ends.append(said[first - 1])
    assert {EOS, 5, 8} <= set(ends)  # each of them ended a row


def test_no_end_is_drawn_before_a_forced_length() -> None:
    length_B = torch.full((12,), MAX_LEN)
    forced = {"max_completion_len": MAX_LEN, "temperature": 1.0, "seed": 3, "forced_lengths_B": length_B}
    batch, _ = engine_for(EngineKnobs(), 5, 8).generate(prompt_batch(), **forced)  # type: ignore[arg-type]
    assert batch.lengths_B.tolist() == length_B.tolist()
    assert not {EOS, 5, 8} & set(batch.completion_BT[:, :-1].flatten().tolist())


@pytest.mark.parametrize("knobs", KNOBS, ids=short)
def test_no_knob_changes_what_is_sampled(knobs: EngineKnobs) -> None:
    plain, _ = engine_for(EngineKnobs()).generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=0.8, seed=5)
    batch, _ = engine_for(knobs).generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=0.8, seed=5)
    assert len(set(plain.lengths_B.tolist())) > 3  # the case is not trivial
    assert torch.equal(batch.completion_BT, plain.completion_BT)
    assert torch.equal(batch.lengths_B, plain.lengths_B)
    assert torch.equal(batch.finished_B, plain.finished_B)
    assert torch.allclose(batch.logprobs_BT, plain.logprobs_BT, atol=1e-5)
    assert batch.entropy == pytest.approx(plain.entropy, abs=1e-5)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_recorded_logprobs_are_those_of_a_full_forward(forced: bool, temperature: float) -> None:
    prompts = prompt_batch()
    lengths = torch.arange(prompts.num_rows) % MAX_LEN + 1 if forced else None
    batch, _ = engine_for(KNOBS[-1]).generate(
        prompts, max_completion_len=MAX_LEN, temperature=temperature, seed=2, forced_lengths_B=lengths
    )
    for row in range(prompts.num_rows):
        tokens, start = sequence(batch, row)
        logprobs = (full_forward_logits(tokens[:-1])[start - 1 :] / temperature).log_softmax(-1)
        expected = logprobs.gather(1, tokens[start:, None])[:, 0]
        assert torch.allclose(batch.logprobs_BT[row, : len(expected)], expected, atol=1e-4)
        if temperature == 1:
            assert batch.raw_logprobs_BT is None
        else:
            raw = full_forward_logits(tokens[:-1])[start - 1 :].log_softmax(-1).gather(1, tokens[start:, None])[:, 0]
            assert batch.raw_logprobs_BT is not None
            assert torch.allclose(batch.raw_logprobs_BT[row, : len(raw)], raw, atol=1e-4)
            assert not batch.raw_logprobs_BT[row, len(raw) :].any()
        assert not batch.logprobs_BT[row, len(expected) :].any()


@pytest.mark.parametrize("knobs", KNOBS, ids=short)
def test_forced_lengths_are_met_exactly(knobs: EngineKnobs) -> None:
    prompts = prompt_batch()
    lengths = torch.tensor([1, 10, 3, 3, 7, 2, 10, 1, 5, 4, 9, 6])
    batch, _ = engine_for(knobs).generate(
        prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=3, forced_lengths_B=lengths
    )
    assert torch.equal(batch.lengths_B, lengths)
    assert batch.finished_B.all()
    before_last = torch.arange(MAX_LEN) < lengths[:, None] - 1
    assert not (batch.completion_BT == EOS)[before_last].any()
    assert (batch.completion_BT[~batch.mask_BT] == PAD).all()


def test_a_row_is_finished_only_if_it_ended_with_eos() -> None:
    batch, _ = engine_for(EngineKnobs()).generate(prompt_batch(), max_completion_len=4, temperature=1.0, seed=5)
    last = batch.completion_BT.gather(1, batch.lengths_B[:, None] - 1)[:, 0]
    assert torch.equal(batch.finished_B, last == EOS)
    assert batch.finished_B.any()
    assert not batch.finished_B.all()
    assert (batch.lengths_B[~batch.finished_B] == 4).all()


def test_every_token_carries_the_version_that_sampled_it() -> None:
    engine = engine_for(EngineKnobs())
    engine.load(MODEL.state_dict(), version=9)
    batch, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    assert engine.version == 9
    assert batch.versions_BT.dtype == torch.int32
    assert (batch.versions_BT[batch.mask_BT] == 9).all()
    assert (batch.versions_BT[~batch.mask_BT] == -1).all()


def test_results_can_enter_autograd() -> None:
    batch, _ = engine_for(EngineKnobs()).generate(prompt_batch(), max_completion_len=4, temperature=1.0, seed=1)
    tensors = (batch.completion_BT, batch.logprobs_BT, batch.versions_BT, batch.lengths_B, batch.finished_B)
    assert not any(tensor.is_inference() for tensor in tensors)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("knobs", [KNOBS[0], KNOBS[-1]], ids=short)
def test_scoring_repeats_the_recorded_logprobs_in_the_rollouts_own_format(knobs: EngineKnobs, dtype: str) -> None:
    engine = engine_for(EngineKnobs.model_validate({**knobs.model_dump(), "rollout_dtype": dtype}))
    batch, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=0.9, seed=4)
    scored = engine.score(batch.prompts, batch.completion_BT, batch.lengths_B, temperature=0.9)
    assert torch.allclose(scored, batch.logprobs_BT, atol=1e-5 if dtype == "fp32" else 0.02)


def test_bf16_differs_from_fp32_but_not_by_much() -> None:
    batch, _ = engine_for(EngineKnobs()).generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=4)
    scored = engine_for(EngineKnobs(rollout_dtype="bf16")).score(
        batch.prompts, batch.completion_BT, batch.lengths_B, temperature=1.0
    )
    gap = (scored - batch.logprobs_BT).abs()
    assert 1e-4 < float(gap.max()) < 0.5


def test_an_aliased_engine_sees_the_trainers_weights_without_a_copy() -> None:
    model = livelier(build_model(SPEC, VOCAB, seed=0))
    knobs = EngineKnobs(handover="alias")
    engine = RolloutEngine(SPEC, knobs, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, shared=model)
    before, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    with torch.no_grad():
        model.embed.weight.mul_(0.5)
    engine.load({}, version=3)
    after, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    assert (after.versions_BT[after.mask_BT] == 3).all()
    assert not torch.equal(before.completion_BT, after.completion_BT)


def test_a_loaded_engine_keeps_its_own_weights() -> None:
    state = {name: tensor.clone() for name, tensor in MODEL.state_dict().items()}
    engine = engine_for(EngineKnobs())
    engine.load(state, version=1)
    before, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    for tensor in state.values():
        tensor.zero_()
    after, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    assert torch.equal(before.completion_BT, after.completion_BT)


def test_alias_needs_a_module_and_fp32() -> None:
    with pytest.raises(JobError, match="no module"):
        RolloutEngine(SPEC, EngineKnobs(handover="alias"), vocab_size=VOCAB, pad_id=PAD, eos_id=EOS)
    knobs = EngineKnobs(handover="alias", rollout_dtype="bf16")
    with pytest.raises(JobError, match="rollout_dtype `bf16`"):
        RolloutEngine(SPEC, knobs, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, shared=MODEL)


def test_one_row_alone_works() -> None:
    prompts = prompt_batch(lengths=(1,), group_size=1)
    for knobs in (EngineKnobs(), EngineKnobs(rollout_concurrency=1, share_prefill=True, compact_finished=True)):
        batch, trace = engine_for(knobs).generate(prompts, max_completion_len=1, temperature=1.0, seed=1)
        assert batch.lengths_B.tolist() == [1]
        assert trace.prefill_tokens == 0  # the only prompt token is fed by the first decode iteration


def test_the_trace_counts_what_was_computed() -> None:
    prompts = prompt_batch()  # 4 prompts x 3, longest 6 tokens: 5 of them prefilled
    lengths = torch.tensor([2, 4, 1] * 4)

    def trace_of(**knobs: object) -> tuple[int, tuple[int, ...]]:
        engine = engine_for(EngineKnobs.model_validate(knobs))
        _, trace = engine.generate(
            prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=1, forced_lengths_B=lengths
        )
        assert trace.decode_iterations == len(trace.running_I)
        return trace.prefill_tokens, trace.running_I

    assert trace_of() == (12 * 5, (12,) * 4)
    assert trace_of(share_prefill=True) == (4 * 5, (12,) * 4)
    # lengths 2, 4, 1: 12 rows, then the 1s are gone, then the 2s
    assert trace_of(compact_finished=True) == (12 * 5, (12, 8, 4, 4))
    # two waves of 6, each as long as its longest row
    assert trace_of(rollout_concurrency=6) == (12 * 5, (6,) * 8)
    # slots never idle while rows wait: 28 tokens in all
    _, running = trace_of(rollout_concurrency=6, compact_finished=True)
    assert sum(running) == 28
    assert max(running) == 6


def test_spans_cover_prefill_and_decode_on_the_rollout_role() -> None:
    recorder = Recorder()
    _, trace = engine_for(KNOBS[-1]).generate(
        prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1, recorder=recorder
    )
    spans = recorder.take()
    assert {span.phase for span in spans} == {"rollout/prefill", "rollout/decode"}
    assert {span.role for span in spans} == {Role.ROLLOUT}
    decode_s = sum(span.seconds for span in spans if span.phase == "rollout/decode")
    assert decode_s == pytest.approx(trace.decode_s)


def test_the_cache_grows_and_serves_smaller_batches() -> None:
    engine = engine_for(EngineKnobs())
    for lengths in ((2,), (3, 6, 1, 4), (2, 2)):
        prompts = prompt_batch(lengths)
        batch, _ = engine.generate(prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=6)
        fresh, _ = engine_for(EngineKnobs()).generate(prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=6)
        assert torch.equal(batch.completion_BT, fresh.completion_BT)


def test_weights_that_give_nan_are_refused() -> None:
    engine = engine_for(EngineKnobs())
    broken = {name: tensor * torch.nan for name, tensor in MODEL.state_dict().items()}
    engine.load(broken, version=1)
    with pytest.raises(HealthError, match="NaN or infinite"):
        engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)


def test_a_healthy_engine_is_not_poisoned_by_earlier_nan() -> None:
    engine = engine_for(EngineKnobs())
    engine.load({name: tensor * torch.nan for name, tensor in MODEL.state_dict().items()}, version=1)
    with pytest.raises(HealthError):
        engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    engine.load(MODEL.state_dict(), version=2)
    batch, _ = engine.generate(prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    assert batch.logprobs_BT.isfinite().all()


def test_sizes_that_cannot_be_are_refused() -> None:
    engine = engine_for(EngineKnobs())
    empty = PromptBatch(
        tokens_BP=torch.zeros(0, 0, dtype=torch.int64),
        **dict.fromkeys(("lengths_B", "group_B", "problem_B", "sample_B"), torch.zeros(0, dtype=torch.int64)),
    )
    with pytest.raises(JobError, match="0 rows"):
        engine.generate(empty, max_completion_len=MAX_LEN, temperature=1.0, seed=1)
    with pytest.raises(JobError, match="must be positive, got 0"):
        engine.generate(prompt_batch(), max_completion_len=0, temperature=1.0, seed=1)
    for lengths in (torch.tensor([1, 2]), torch.zeros(12), torch.full((12,), MAX_LEN + 1)):
        with pytest.raises(JobError, match="one completion length"):
            engine.generate(
                prompt_batch(), max_completion_len=MAX_LEN, temperature=1.0, seed=1, forced_lengths_B=lengths
            )
