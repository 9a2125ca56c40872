"""The hybrid family: the delta rule by definition, documents kept apart, decoding equal to training."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from steptune.core.errors import JobError
from steptune.core.model import HybridModel, HybridMoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.models.delta_rule import CHUNK, scan, step
from steptune.engine.produce import PAD, TOKENIZER, prompt_batch
from steptune.engine.recur import RunsRecur
from steptune.engine.rollout import RolloutEngine

CPU = torch.device("cpu")

HYBRID = HybridModel(
    num_layers=4, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, d_ff=32, linear_key_heads=2,
    linear_value_heads=4, linear_key_dim=8, linear_value_dim=6,
)  # fmt: skip
HYBRID_MOE = HybridMoEModel(
    num_layers=4, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, num_experts=4, top_k=2, d_expert=16,
    d_shared_expert=8, linear_key_heads=2, linear_value_heads=4, linear_key_dim=8, linear_value_dim=6,
)  # fmt: skip


@pytest.mark.parametrize("width", [1, 5, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
def test_a_scan_is_the_rule_token_by_token(width: int) -> None:
    q, k, v, log_decay, beta = some_rule(rows=3, width=width)
    state = torch.zeros(3, 2, 4, 5)
    outputs = []
    for i in range(width):
        out, state = step(q[:, i], k[:, i], v[:, i], log_decay[:, i], beta[:, i], state)
        outputs.append(out)
    got, last = scan(q, k, v, log_decay, beta)
    torch.testing.assert_close(got, torch.stack(outputs, dim=1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last, state, rtol=1e-4, atol=1e-5)


def test_a_scan_continues_from_a_state() -> None:
    parts = some_rule(rows=2, width=20)
    whole, last = scan(*parts)
    first, state = scan(*(x[:, :7] for x in parts))
    second, continued = scan(*(x[:, 7:] for x in parts), state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(continued, last, rtol=1e-4, atol=1e-5)


def test_strong_forgetting_neither_overflows_nor_leaks_into_gradients() -> None:
    q, k, v, log_decay, beta = some_rule(rows=1, width=CHUNK)
    log_decay = (log_decay - 50.0).requires_grad_()
    out, _state = scan(q, k, v, log_decay, beta)
    out.sum().backward()
    assert out.isfinite().all()
    assert log_decay.grad is not None
    assert log_decay.grad.isfinite().all()


@pytest.mark.parametrize("spec", [HYBRID, HYBRID_MOE], ids=lambda spec: spec.kind)
@given(widths=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_packed_documents_never_see_each_other(spec: HybridModel, widths: list[int]) -> None:
    model = small(spec)
    documents = [
        torch.randint(3, 40, (width,), generator=torch.Generator().manual_seed(i)) for i, width in enumerate(widths)
    ]
    alone = torch.cat([hidden(model, document, [Run(len(document), 1)]) for document in documents])
    packed = hidden(model, torch.cat(documents), [Run(len(document), 1) for document in documents])
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-5)


def test_gradients_of_packed_documents_are_those_of_each_alone() -> None:
    model = small(HYBRID)
    documents = [torch.arange(3, 12), torch.arange(5, 9), torch.arange(20, 21)]
    alone = sum(hidden(model, document, [Run(len(document), 1)]).square().sum() for document in documents)
    wanted = torch.autograd.grad(alone, list(model.parameters()))
    packed = hidden(model, torch.cat(documents), [Run(len(document), 1) for document in documents]).square().sum()
    got = torch.autograd.grad(packed, list(model.parameters()))
    for name, a, b in zip(dict(model.named_parameters()), got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=name)


def test_padding_behind_a_row_changes_nothing_before_it() -> None:
    model = small(HYBRID)
    short, long = torch.arange(3, 8), torch.arange(10, 19)
    padded = torch.cat((short, torch.full((4,), PAD), long))
    got = hidden(model, padded, [Run(9, 2)])
    torch.testing.assert_close(got[:5], hidden(model, short, [Run(5, 1)]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[9:], hidden(model, long, [Run(9, 1)]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", [HYBRID, HYBRID_MOE], ids=lambda spec: spec.kind)
@pytest.mark.parametrize("share_prefill", [False, True])
def test_decoded_log_probs_are_those_of_the_trainer(spec: HybridModel, share_prefill: bool) -> None:
    model = small(spec)
    knobs = EngineKnobs(share_prefill=share_prefill, compact_finished=True, rollout_concurrency=5)
    engine = RolloutEngine(spec, knobs, vocab_size=TOKENIZER.vocab_size, pad_id=PAD, eos_id=TOKENIZER.eos_id)
    engine.load(model.state_dict(), version=0)
    prompts = prompt_batch(["1+2=", "10+205=", "7="], [0, 1, 2], 4)
    forced = torch.tensor([3, 1, 7, 2] * 3)
    batch, _trace = engine.generate(prompts, max_completion_len=7, temperature=1.0, seed=3, forced_lengths_B=forced)
    for row in range(prompts.num_rows):
        prompt = prompts.tokens_BP[row, : prompts.lengths_B[row]]
        completion = batch.completion_BT[row, : batch.lengths_B[row]]
        tokens = torch.cat((prompt, completion))
        logits = model.logits(hidden(model, tokens, [Run(len(tokens), 1)]))
        wanted = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(1, completion[:, None])[:, 0]
        torch.testing.assert_close(batch.logprobs_BT[row, : len(completion)], wanted, rtol=1e-4, atol=1e-4)


def test_a_shared_prompt_is_refused_by_a_recurrent_layer() -> None:
    recur = RunsRecur([Run(2, 1), replace_prefix(Run(3, 2), 2)], CPU)
    with pytest.raises(JobError, match="packed"):
        recur.conv(0, torch.zeros(8, 4), torch.zeros(4, 4))


def replace_prefix(run: Run, prefix: int) -> Run:
    return run._replace(prefix=prefix)


def some_rule(rows: int, width: int) -> tuple[Tensor, ...]:
    """Return q, k [.., 2 heads, 4], v [.., 2, 5], log-decay and beta [.., 2]; keys of length 1."""
    torch.manual_seed(width)
    q, k = torch.randn(2, rows, width, 2, 4)
    k = k / k.norm(dim=-1, keepdim=True)
    return q, k, torch.randn(rows, width, 2, 5), -torch.rand(rows, width, 2), torch.rand(rows, width, 2)


def small(spec: HybridModel) -> Transformer:
    """Return a model whose weights are large enough for a leak to show."""
    model = build_model(spec, TOKENIZER.vocab_size, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(5.0)
    return model


def hidden(model: Transformer, tokens: Tensor, runs: list[Run]) -> Tensor:
    """Return hidden states of documents laid out as ``runs``."""
    recur = RunsRecur(runs, CPU)
    positions = torch.cat([torch.arange(run.width).repeat(run.num_rows) for run in runs])
    return model.hidden(tokens, positions, Context(attend=attend_runs(runs), recur=recur))


@pytest.mark.parametrize("width", [1, 3, 5])
def test_gradients_of_the_rule_are_the_numerical_ones(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptune.engine.models.delta_rule.CHUNK", 2)  # one chunk, and several of which one is padded
    parts = [x[:, :, :1].double().requires_grad_() for x in some_rule(rows=1, width=width)]
    state = torch.randn(1, 1, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scan, (*parts, state))
