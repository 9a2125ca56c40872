"""A stream says what a batch says, group by group, however its rows enter, stop and go on."""

import itertools
from dataclasses import replace

import pytest
import torch

from steptune.core.errors import HealthError
from steptune.core.job import DenseModel
from steptune.core.model import HybridModel, ModelSpec, MoEModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import take_rows
from steptune.engine.rollout import RolloutEngine
from steptune.engine.stream.groups import Done, Start
from steptune.engine.stream.stream import Stream
from steptune.engine.types import PromptBatch, RolloutBatch

VOCAB, PAD, EOS, MAX_LEN, SIZE = 12, 0, 2, 10, 3
DENSE = DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, d_ff=48)
MOE = MoEModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, num_experts=4, top_k=2, d_expert=16)
HYBRID = HybridModel(num_layers=2, full_attention_every=2, d_model=32, num_heads=2, num_kv_heads=1, d_ff=48)


def model_of(spec: ModelSpec, seed: int = 0) -> Transformer:
    model = build_model(spec, VOCAB, seed=seed)
    with torch.no_grad():
        for param in model.parameters():
            if param.ndim == 2:
                param.mul_(8)  # tokens differ in likelihood and rows end at different times
    return model


def prompts(num_groups: int) -> PromptBatch:
    generator = torch.Generator().manual_seed(1)
    length = torch.tensor([(3, 6, 1, 4)[i % 4] for i in range(num_groups)])
    tokens = torch.randint(3, VOCAB, (num_groups, 6), generator=generator)
    tokens[torch.arange(6) >= length[:, None]] = PAD
    index = torch.arange(num_groups).repeat_interleave(SIZE)
    return PromptBatch(
        tokens_BP=tokens[index],
        lengths_B=length[index],
        group_B=index,
        problem_B=index + 100,
        sample_B=torch.arange(SIZE).repeat(num_groups),
    )


def starts(num_groups: int) -> list[Start]:
    made, whole = list[Start](), prompts(num_groups)
    for number in range(num_groups):
        rows = slice(number * SIZE, (number + 1) * SIZE)
        fields = ("tokens_BP", "lengths_B", "group_B", "problem_B", "sample_B")
        cut = PromptBatch(**{name: getattr(whole, name)[rows] for name in fields})
        made.append(Start(number=number, prompts=cut, limit_g=torch.full((SIZE,), MAX_LEN)))
    return made


def engine_of(spec: ModelSpec, **knobs: object) -> RolloutEngine:
    settings = EngineKnobs.model_validate({"compact_finished": True, **knobs})
    engine = RolloutEngine(spec, settings, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS)
    engine.load(model_of(spec).state_dict(), 1)
    return engine


def stream_of(engine: RolloutEngine, num_slots: int, num_groups: int, temperature: float = 1.0) -> Stream:
    return engine.stream(
        num_slots=num_slots,
        num_rows=num_groups * SIZE,
        group_size=SIZE,
        max_completion_len=MAX_LEN,
        temperature=temperature,
        seed=7,
        is_forced=False,
    )


def run_all(stream: Stream, waiting: list[Start], calls: int = 0) -> list[Done]:
    """Feed groups as slots come free; with ``calls``, leave after so many iterations."""
    left, done = list(waiting), list[Done]()
    countdown = itertools.count(1)

    def refill() -> None:
        while left and stream.num_open > 0:
            stream.begin(left.pop(0))

    def is_called() -> bool:
        return bool(calls) and next(countdown) == calls

    while made := stream.run(refill, is_called):
        done += made
    return done


def assert_same(batch: RolloutBatch, expected: RolloutBatch) -> None:
    width = batch.completion_BT.shape[1]
    assert torch.equal(batch.lengths_B, expected.lengths_B)
    assert torch.equal(batch.completion_BT, expected.completion_BT[:, :width])
    assert torch.equal(batch.finished_B, expected.finished_B)
    torch.testing.assert_close(batch.logprobs_BT, expected.logprobs_BT[:, :width], atol=2e-4, rtol=0)


@pytest.mark.parametrize("spec", [DENSE, MOE, HYBRID], ids=["dense", "moe", "hybrid"])
@pytest.mark.parametrize("share", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("num_slots", [2, 7, 24])
def test_a_stream_says_what_the_batch_says(spec: ModelSpec, share: bool, num_slots: int) -> None:
    engine = engine_of(spec, share_prefill=share)
    batch, _ = engine.generate(prompts(8), max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    done = run_all(stream_of(engine, num_slots, 8), starts(8))
    assert sorted(one.number for one in done) == list(range(8))
    for one in done:
        rows_B = torch.arange(SIZE) + one.number * SIZE
        assert_same(one.batch, take_rows(batch, rows_B, SIZE))
        assert (one.batch.versions_BT[one.batch.mask_BT] == 1).all()


def test_a_stream_ends_rows_at_the_same_ends() -> None:
    engine = RolloutEngine(
        DENSE, EngineKnobs(compact_finished=True), vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, other_eos_ids=(EOS + 1,)
    )
    engine.load(model_of(DENSE).state_dict(), 1)
    batch, _ = engine.generate(prompts(8), max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    assert (batch.completion_BT == EOS + 1).any()
    for one in run_all(stream_of(engine, 7, 8), starts(8)):
        assert_same(one.batch, take_rows(batch, torch.arange(SIZE) + one.number * SIZE, SIZE))


def test_slots_are_refilled_and_no_group_waits_for_the_round_to_end() -> None:
    engine = engine_of(DENSE)
    stream = stream_of(engine, 6, 8)
    run_all(stream, starts(8))
    running = stream.take_trace().running_I
    # the last rows drain; before that at most what one group's admission waits for is empty
    assert sum(running) == sum(int(n) for n in engine_lengths(engine))
    assert min(running[: len(running) // 2]) >= 4


def engine_lengths(engine: RolloutEngine) -> list[int]:
    batch, _ = engine.generate(prompts(8), max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    return batch.lengths_B.tolist()


@pytest.mark.parametrize("spec", [DENSE, MOE, HYBRID], ids=["dense", "moe", "hybrid"])
@pytest.mark.parametrize("calls", [1, 4])
def test_a_group_taken_out_goes_on_where_it_stopped(spec: ModelSpec, calls: int) -> None:
    engine = engine_of(spec, share_prefill=True, router_replay=spec is MOE)
    whole = {one.number: one.batch for one in run_all(stream_of(engine, 24, 8), starts(8))}
    stream = stream_of(engine, 24, 8)
    done = run_all(stream, starts(8), calls)
    carried = stream.take_out()
    assert carried
    assert stream.is_idle
    for start in carried:
        assert start.said is not None
        assert start.num_tokens == int(start.said.length_g.sum()) > 0
        assert start.oldest_version == 1
    goes_on = run_all(stream, carried)
    assert len(done) + len(goes_on) == 8
    for one in goes_on:
        assert_same(one.batch, whole[one.number])
        said = next(start.said for start in carried if start.number == one.number)
        assert said is not None
        for row, length in enumerate(said.length_g.tolist()):
            # what was recorded when it was sampled is what is there at the end, to the bit
            assert torch.equal(one.batch.logprobs_BT[row, :length], said.logprob_gT[row, :length])
        if one.batch.routes_BLJk is not None:
            assert torch.equal(one.batch.routes_BLJk, whole[one.number].routes_BLJk)
    trace = stream.take_trace()
    heads = int((prompts(8).lengths_B - 1).sum())
    assert trace.resumed_tokens > 0
    assert trace.prefill_tokens >= trace.resumed_tokens
    assert trace.resumed_tokens <= heads + sum(start.num_tokens for start in carried)


def test_carried_rows_go_on_under_the_weights_of_then() -> None:
    engine = engine_of(DENSE)
    stream = stream_of(engine, 24, 8)
    run_all(stream, starts(8), calls=3)
    carried = stream.take_out()
    other = model_of(DENSE, seed=1)
    engine.load(other.state_dict(), 5)
    done = run_all(stream, carried)
    for one in done:
        versions = one.batch.versions_BT
        assert (versions[:, :3][one.batch.mask_BT[:, :3]] == 1).all()
        assert (versions[:, 3:][one.batch.mask_BT[:, 3:]] == 5).all()
        # the tail is exactly what the new weights say of it: nothing of the old cache is left
        scored_BT = engine.score(one.batch.prompts, one.batch.completion_BT, one.batch.lengths_B, temperature=1.0)
        torch.testing.assert_close(scored_BT[:, 3:], one.batch.logprobs_BT[:, 3:], atol=2e-4, rtol=0)


def test_weights_loaded_between_tokens_mark_every_token_and_keep_the_cache() -> None:
    engine = engine_of(DENSE)
    stream = stream_of(engine, 24, 4)
    left, done, countdown = starts(4), list[Done](), itertools.count(1)

    def refill() -> None:
        while left:
            stream.begin(left.pop(0))

    while not stream.is_idle or left:
        done += stream.run(refill, lambda: next(countdown) == 2)
        if engine.version == 1 and next(countdown) > 2:
            engine.load(model_of(DENSE, seed=1).state_dict(), 2)
    assert {version for one in done for version in one.batch.versions_BT[:, :2].flatten().tolist()} <= {1, -1}
    late = [one.batch.versions_BT[:, 2:][one.batch.mask_BT[:, 2:]] for one in done]
    assert all((versions == 2).all() for versions in late)
    assert stream.take_trace().resumed_tokens == 0


def test_lines_are_taken_again_and_a_longer_prompt_finds_room() -> None:
    engine = engine_of(MOE, router_replay=True)
    stream = stream_of(engine, 6, 2)
    first = starts(1)[0]
    run_all(stream, [first])
    long = replace(first.prompts, tokens_BP=torch.full((SIZE, 40), 5), lengths_B=torch.full((SIZE,), 40))
    done = run_all(stream, [replace(first, number=9, prompts=long), replace(first, number=10)])
    again = next(one for one in done if one.number == 10)
    batch, _ = engine.generate(first.prompts, max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    assert_same(again.batch, batch)
    for number in (11, 12):  # every line is free again, also for groups that are begun between two calls of `run`
        stream.begin(replace(first, number=number))
    assert [one.number for one in run_all(stream, [])] == [11, 12]


def test_raw_logprobs_come_along_at_another_temperature() -> None:
    engine = engine_of(DENSE)
    batch, _ = engine.generate(prompts(2), max_completion_len=MAX_LEN, temperature=0.7, seed=7)
    done = run_all(stream_of(engine, 6, 2, temperature=0.7), starts(2))
    assert batch.raw_logprobs_BT is not None
    for one in done:
        raw_BT = one.batch.raw_logprobs_BT
        assert raw_BT is not None
        expected = batch.raw_logprobs_BT[one.number * SIZE :][:SIZE, : raw_BT.shape[1]]
        torch.testing.assert_close(raw_BT, torch.where(one.batch.mask_BT, expected, 0.0), atol=2e-4, rtol=0)


def test_weights_that_have_diverged_are_refused() -> None:
    engine = engine_of(DENSE)
    broken = {name: torch.full_like(tensor, torch.nan) for name, tensor in model_of(DENSE).state_dict().items()}
    engine.load(broken, 2)
    with pytest.raises(HealthError, match="log-probs must be finite"):
        run_all(stream_of(engine, 6, 1), starts(1))


def test_a_recurrent_row_without_a_head_begins_from_nothing() -> None:
    # prompts of one token prefill nothing; the slot's last row must not be gone on from
    engine = engine_of(HYBRID, rollout_concurrency=2)
    one = prompts(1)
    short = replace(one, tokens_BP=one.tokens_BP[:, :1], lengths_B=torch.ones(SIZE, dtype=torch.int64))
    first, _ = engine.generate(short, max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    again, _ = engine.generate(short, max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    assert_same(again, first)
    wide, _ = engine_of(HYBRID).generate(short, max_completion_len=MAX_LEN, temperature=1.0, seed=7)
    assert_same(wide, first)
