"""What the CUDA path is told and when it is not taken; the kernel itself has no CPU version."""

import sys

import pytest
import torch
from torch import Tensor

from steptune.engine import varlen
from steptune.engine.attention import attend_runs, key_index
from steptune.engine.micro_batch import Run
from steptune.engine.varlen import INT32_ELEMENTS, attend_varlen, can_attend_varlen, fits_int32, varlen_lengths

RUNS = (Run(4, 2), Run(3, 1), Run(2, 2, prefix=4))


def test_lengths_are_counted_once_for_queries_and_keys() -> None:
    lengths = varlen_lengths(RUNS, torch.device("cpu"))
    assert lengths.start_q.tolist() == [0, 4, 8, 11, 13, 15]
    assert lengths.start_k.tolist() == [0, 4, 8, 11, 17, 23]
    assert lengths.start_q.dtype == lengths.start_k.dtype == torch.int32
    assert (lengths.max_q, lengths.max_k, lengths.num_positions, lengths.num_documents) == (4, 6, 15, 5)


@pytest.mark.parametrize(("num_documents", "fits"), [(8128, True), (8129, False), (200_000, False)])
def test_the_buffer_of_many_tiny_documents_must_be_addressable_in_int32(num_documents: int, fits: bool) -> None:
    # (8128 + 128 * 8128) * 16 * 128 = 2,147,352,576 is just below 2^31 = 2,147,483,648
    assert fits_int32(num_positions=num_documents, num_documents=num_documents, num_heads=16, head_dim=128) is fits


def test_head_dims_are_rounded_up_before_they_are_counted() -> None:
    num_positions = INT32_ELEMENTS // 64 - 128
    assert not fits_int32(num_positions=num_positions, num_documents=1, num_heads=1, head_dim=33)
    assert fits_int32(num_positions=num_positions - 1, num_documents=1, num_heads=1, head_dim=33)
    assert fits_int32(num_positions=num_positions, num_documents=1, num_heads=1, head_dim=32)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize(("dtype", "expected"), [(torch.bfloat16, True), (torch.float32, False)])
def test_the_choice_depends_on_shape_and_format_and_not_on_gradients(
    needs_grad: bool, dtype: torch.dtype, expected: bool
) -> None:
    q_NHE = torch.zeros(15, 4, 8, dtype=dtype, requires_grad=needs_grad)
    assert can_attend_varlen(varlen_lengths(RUNS, torch.device("cpu")), q_NHE, dtype) is expected


@pytest.mark.parametrize("head_dim", [12, 264])
def test_heads_the_kernel_does_not_know_take_the_runs(head_dim: int) -> None:
    q_NHE = torch.zeros(15, 4, head_dim, dtype=torch.bfloat16)
    assert not can_attend_varlen(varlen_lengths(RUNS, torch.device("cpu")), q_NHE, torch.bfloat16)


def stand_in(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    window_size: tuple[int, int],
    enable_gqa: bool,
) -> Tensor:
    """What the documentation says of `varlen_attn`, one document at a time."""
    assert window_size == (-1, 0)
    assert enable_gqa
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert (max_q, max_k) == (int(cu_seq_q.diff().max()), int(cu_seq_k.diff().max()))
    outs = list[Tensor]()
    for q0, q1, k0, k1 in zip(
        *(x.tolist() for x in (cu_seq_q[:-1], cu_seq_q[1:], cu_seq_k[:-1], cu_seq_k[1:])), strict=True
    ):
        k, v = (x[k0:k1].repeat_interleave(query.shape[1] // key.shape[1], dim=1) for x in (key, value))
        scores = torch.einsum("qhe,khe->hqk", query[q0:q1], k) / query.shape[-1] ** 0.5
        seen = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool).tril(k1 - k0 - (q1 - q0))
        outs.append(torch.einsum("hqk,khe->qhe", scores.masked_fill(~seen, -torch.inf).softmax(-1), v))
    return torch.cat(outs)


def test_the_one_call_is_told_what_the_runs_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", stand_in)
    q, k, v = (torch.randn(15, heads, 8) for heads in (4, 2, 2))
    prompt_of = (1, 0)
    keys = key_index(RUNS, prompt_of)
    got = attend_varlen(varlen_lengths(RUNS, torch.device("cpu")), q, k[keys], v[keys])
    torch.testing.assert_close(got, attend_runs(RUNS, prompt_of)(0, q, k, v), atol=1e-5, rtol=1e-5)


def test_a_torch_without_the_call_or_its_arguments_takes_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(query: Tensor, key: Tensor, value: Tensor) -> None:
        raise AssertionError("must not be called")

    assert varlen.has_varlen.__wrapped__()
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", older)
    assert not varlen.has_varlen.__wrapped__()
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    assert not varlen.has_varlen.__wrapped__()
