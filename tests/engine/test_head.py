"""Logits in tiles: the same numbers, without ever holding all of them."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from trainer_cases import scored_batch, small_trainer

from steptune.engine import head as head_module
from steptune.engine.events import Recorder
from steptune.engine.head import token_logprobs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.live_memory import LiveMemory

C, D, V = 37, 8, 501


def head_case(dtype: torch.dtype = torch.float32) -> tuple[nn.Linear, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    head = nn.Linear(D, V, bias=False, dtype=dtype)
    with torch.no_grad():
        head.weight.copy_(torch.randn(V, D, generator=g))
    hidden_CD = torch.randn(C, D, generator=g).to(dtype).requires_grad_()
    return head, hidden_CD, torch.randint(0, V, (C,), generator=g)


def scored(tile_tokens: int | None, dtype: torch.dtype, *, bf16: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probs and the gradients of head and hidden states under uneven weights."""
    head, hidden_CD, target_C = head_case(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logprob_C = token_logprobs(hidden_CD, head.weight, target_C, temperature=0.7, tile_tokens=tile_tokens)
    (logprob_C * torch.linspace(-1, 1, C)).sum().backward()
    assert head.weight.grad is not None
    assert hidden_CD.grad is not None
    return logprob_C.detach(), head.weight.grad, hidden_CD.grad


@pytest.mark.parametrize("tile_tokens", [1, 8, 36, 37, 1000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_tiles_change_neither_values_nor_gradients(tile_tokens: int, dtype: torch.dtype, tolerance: float) -> None:
    for tiled, whole in zip(scored(tile_tokens, dtype), scored(None, dtype), strict=True):
        assert (tiled - whole).norm() <= tolerance * whole.norm()


def test_tiles_repeat_the_autocast_of_the_forward() -> None:
    fp32, whole, tiled = scored(None, torch.float32), *(scored(n, torch.float32, bf16=True) for n in (None, 8))
    assert (tiled[0] - whole[0]).norm() <= 1e-6 * whole[0].norm()
    assert (tiled[0] - fp32[0]).abs().max() > 1e-4
    for a, b in zip(tiled[1:], whole[1:], strict=True):
        assert (a - b).norm() <= 1e-2 * b.norm()  # sums over tiles round in bfloat16


def test_logits_never_exist_all_at_once() -> None:
    all_logits, one_tile, weight = 4 * C * V, 4 * 8 * V, 4 * V * D
    small = 4 * 8 * C * D
    assert peak_bytes(None) >= 3 * all_logits  # logits, softmax and gradient
    assert peak_bytes(8) <= weight + 2 * one_tile + small  # the weight's gradient; a tile and a copy of it


def peak_bytes(tile_tokens: int | None) -> int:
    head, hidden_CD, target_C = head_case()
    with LiveMemory() as memory:
        token_logprobs(hidden_CD, head.weight, target_C, temperature=0.7, tile_tokens=tile_tokens).sum().backward()
    return memory.peak_bytes


@pytest.mark.parametrize("tile_tokens", [None, 5])
def test_the_trainer_scores_in_tiles_of_its_knob(tile_tokens: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, linear = list[int](), F.linear

    def watched(x: Tensor, weight: Tensor) -> Tensor:
        sizes.append(len(x))
        return linear(x, weight)

    monkeypatch.setattr(head_module, "F", SimpleNamespace(linear=watched, cross_entropy=F.cross_entropy))
    trainer, recorder = small_trainer(knobs=EngineKnobs(head_tile_tokens=tile_tokens)), Recorder()
    stats = trainer.update(trainer.prepare(scored_batch(), recorder), weights_version=5, recorder=recorder)
    assert (max(sizes) <= 5) is (tile_tokens is not None)
    monkeypatch.undo()
    plain = small_trainer(knobs=EngineKnobs())
    expected = plain.update(plain.prepare(scored_batch(), recorder), weights_version=5, recorder=recorder)
    assert stats.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
