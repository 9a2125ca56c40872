"""Rows laid side by side must not see each other: values and gradients against each row alone."""

import pytest
import torch
from trainer_cases import VOCAB, small_model

from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.plan import Run

RUNS = (Run(7, 2), Run(5, 3), Run(1, 2))


def documents() -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    return [torch.randint(0, VOCAB, (run.width,), generator=g) for run in RUNS for _ in range(run.num_rows)]


@pytest.mark.parametrize("recompute", [False, True])
def test_packed_rows_equal_rows_computed_alone_in_value_and_gradient(recompute: bool) -> None:
    together, alone, docs = small_model(), small_model(), documents()
    positions = torch.cat([torch.arange(len(doc)) for doc in docs])
    packed = together.hidden(torch.cat(docs), positions, Context(attend=attend_runs(RUNS)), recompute=recompute)
    single = torch.cat(
        [alone.hidden(d, torch.arange(len(d)), Context(attend=attend_runs([Run(len(d), 1)]))) for d in docs]
    )
    torch.testing.assert_close(packed, single, atol=1e-5, rtol=1e-5)
    probe = torch.linspace(-1, 1, packed.numel()).view_as(packed)
    (packed * probe).sum().backward()
    (single * probe).sum().backward()
    for p, q in zip(together.parameters(), alone.parameters(), strict=True):
        assert p.grad is not None
        assert q.grad is not None
        assert (p.grad - q.grad).norm() <= 1e-5 * q.grad.norm()


def test_no_gradient_crosses_from_one_row_to_another() -> None:
    q, k, v = (torch.randn(sum(r.width * r.num_rows for r in RUNS), h, 4, requires_grad=True) for h in (4, 2, 2))
    out = attend_runs(RUNS)(0, q, k, v)
    out[7:14].sum().backward()  # the second row
    for x in (q, k, v):
        assert x.grad is not None
        touched = x.grad.abs().sum(dim=(1, 2)) > 0
        assert not touched[:7].any()
        assert not touched[14:].any()
    assert v.grad is not None
    assert (v.grad[7:14].abs().sum(dim=(1, 2)) > 0).all()


def test_padding_behind_a_row_changes_nothing_in_it() -> None:
    model, doc = small_model(), documents()[0]
    padded = torch.cat([doc, torch.tensor([0, 0, 0])])
    wide = model.hidden(padded, torch.arange(10), Context(attend=attend_runs([Run(10, 1)])))
    narrow = model.hidden(doc, torch.arange(7), Context(attend=attend_runs([Run(7, 1)])))
    torch.testing.assert_close(wide[:7], narrow, atol=1e-5, rtol=1e-5)
