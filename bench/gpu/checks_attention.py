"""Packed attention against the same runs in float32 on the CPU, whichever kernel the device takes.

Shape letters: N positions, H query head, K key/value head, E head dim.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor

from gpu.compare import BF16, BF16_MODEL, EXACT, FP32, Finding, apart, moved
from gpu.models import CHECKED, checked_batch, checked_model
from gpu.one_pass import one_pass
from gpu.site import Site, UnavailableError
from steptune.engine import attention
from steptune.engine.attention import attend_runs
from steptune.engine.micro_batch import Run

RUNS = (Run(24, 3), Run(17, 1), Run(1, 2), Run(5, 4, prefix=17))
"""Rows of several widths, single tokens, and rows that continue the prompt of 17."""

PROMPT_OF = (3, 3, 3, 3)
HEADS, KV_HEADS, HEAD_DIM = 8, 2, 64
FIRST_REFUSED = 8129
"""Documents of one token at 16 heads of 128 from which the backward buffer of the kernel passes 2^31 (`varlen`)."""

FEW = 65
"""Documents in its place where there is no kernel to guard: a CPU takes 9 seconds for so many."""


class Calls:
    """How often the variable-length kernel was chosen."""

    count = 0


@contextmanager
def counted_varlen() -> Generator[Calls]:
    """Count the calls of the kernel while they go through."""
    calls, original = Calls(), attention.attend_varlen

    def counted(*arguments: object) -> Tensor:
        calls.count += 1
        return original(*arguments)  # type: ignore[arg-type]

    with mock.patch.object(attention, "attend_varlen", counted):
        yield calls


def runs_fp32(site: Site) -> Finding:
    """Float32 takes one attention per run, forward and backward, grouped heads, prompts shared."""
    found = apart(_attended(site.device, torch.float32), _attended(torch.device("cpu"), torch.float32))
    return Finding(difference=found, tolerance=FP32, note="runs with grouped heads and a shared prompt, and gradients")


def varlen_bf16(site: Site) -> Finding:
    """Half precision takes the variable-length kernel, for each query and gradient."""
    _require_flash(site)
    with counted_varlen() as calls:
        ours = _attended(site.device, torch.bfloat16)
    if site.is_cuda and calls.count != 1:
        raise AssertionError(f"the variable-length kernel was called {calls.count} times, not once")
    found = apart(ours, _attended(torch.device("cpu"), torch.float32))
    return Finding(difference=found, tolerance=BF16, note=f"kernel called {calls.count} times; output and gradients")


def int32_guard(site: Site) -> Finding:
    """One document too many for the kernel's int32 takes the runs, and one fewer does not: both are right.

    Documents of one token attend to themselves alone: the output is the value, its gradient the output's.
    """
    _require_flash(site)
    differences, calls_by_size = list[float](), list[int]()
    refused = FIRST_REFUSED if site.is_cuda else FEW
    for num_documents in (refused - 1, refused):
        q, k, v = (torch.randn(num_documents, 16, 128, device=site.device).bfloat16() for _ in range(3))
        leaves = moved((q, k, v), site.device)
        with counted_varlen() as calls:
            out = attend_runs([Run(1, num_documents)], device=site.device)(0, *leaves)
            out.backward(torch.ones_like(out))
        gradient = leaves[2].grad
        assert gradient is not None, "the value has a gradient"
        differences.append(max(apart([out], [v]), apart([gradient], [torch.ones_like(v)])))
        calls_by_size.append(calls.count)
    if site.is_cuda and calls_by_size != [1, 0]:
        raise AssertionError(f"the kernel was called {calls_by_size} times below and above its limit, not [1, 0]")
    note = f"kernel called {calls_by_size} times at {refused - 1} and {refused} documents"
    return Finding(difference=max(differences), tolerance=EXACT, note=note)


def shared_prefix(site: Site) -> Finding:
    """A group's prompt computed once gives the log-probs and gradients of packed rows on the CPU."""
    batch, family = checked_batch(), "dense"
    expected = one_pass(checked_model(family, torch.device("cpu")), batch).tensors
    model = checked_model(family, site.device)
    exact = apart(one_pass(model, batch, layout="shared_prefix").tensors, expected)
    rounded = apart(one_pass(model, batch, layout="shared_prefix", is_bf16=True).tensors, expected)
    note = (
        f"{CHECKED[family].num_layers} layers against packed rows on the CPU; bf16 {rounded:.2g} (up to {BF16_MODEL})"
    )
    return Finding(difference=exact if rounded <= BF16_MODEL else rounded, tolerance=FP32, note=note)


def _attended(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Return output and gradients of `RUNS`; inputs are rounded to bf16 first, so that every format gets the same."""
    leaves = moved(_rounded((HEADS, KV_HEADS, KV_HEADS)), device, dtype)
    out_NHE = attend_runs(RUNS, PROMPT_OF, device=device)(0, *leaves)
    (weight_NHE,) = _rounded((HEADS,), seed=1)
    out_NHE.backward(weight_NHE.to(device, out_NHE.dtype))
    return [out_NHE, *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def _rounded(heads: Sequence[int], seed: int = 0) -> list[Tensor]:
    num_positions = sum(run.width * run.num_rows for run in RUNS)
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(num_positions, h, HEAD_DIM, generator=generator).bfloat16().float() for h in heads]


def _require_flash(site: Site) -> None:
    if site.is_cuda and site.capability < (8, 0):
        raise UnavailableError(f"flash attention needs compute capability 8.0, this device has {site.capability}")
