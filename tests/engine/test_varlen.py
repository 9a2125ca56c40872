"""What the CUDA path is told and when it is not taken; the kernel itself has no CPU version."""

import pytest
import torch

from steptune.engine.micro_batch import Run
from steptune.engine.varlen import INT32_ELEMENTS, can_attend_varlen, fits_int32, varlen_lengths

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
