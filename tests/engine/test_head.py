"""Logits in tiles: the same numbers, without ever holding all of them."""

import pytest
import torch
from live_memory import LiveMemory
from torch import Tensor, nn
from trainer_cases import scored_batch, small_trainer

from steptune.engine.events import Recorder
from steptune.engine.head import token_entropies, token_logprobs
from steptune.engine.knobs import EngineKnobs

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
        logprob_C = token_logprobs(head, hidden_CD, target_C, temperature=0.7, tile_tokens=tile_tokens)
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
    assert (tiled[0] - whole[0]).abs().max() <= 1e-6
    assert (tiled[0] - fp32[0]).abs().max() > 1e-4
    for a, b in zip(tiled[1:], whole[1:], strict=True):
        assert (a - b).norm() <= 1e-2 * b.norm()  # sums over tiles round in bfloat16


def test_entropies_are_those_of_the_whole_softmax() -> None:
    head, hidden_CD, _ = head_case()
    expected_C = torch.distributions.Categorical(logits=head(hidden_CD) / 0.7).entropy()
    got_C = token_entropies(head, hidden_CD, temperature=0.7, tile_tokens=10)
    torch.testing.assert_close(got_C, expected_C.detach(), atol=1e-6, rtol=1e-6)
    assert not got_C.requires_grad


def test_logits_never_exist_all_at_once() -> None:
    peaks = {tile: peak_bytes(tile) for tile in (None, 8)}
    all_logits = 4 * C * V
    assert peaks[None] > 3 * all_logits  # logits, softmax, gradient
    assert peaks[8] < all_logits
    # 8 of 37 positions; two gradients of the weight (so far, this tile's) and the hidden states come on top
    assert peaks[8] < peaks[None] * 8 / C + 4 * (2 * V * D + 8 * C * D)


def peak_bytes(tile_tokens: int | None) -> int:
    head, hidden_CD, target_C = head_case()
    with LiveMemory() as memory:
        token_logprobs(head, hidden_CD, target_C, temperature=0.7, tile_tokens=tile_tokens).sum().backward()
    return memory.peak_bytes


def test_the_trainer_scores_in_tiles_of_its_knob() -> None:
    stats = list[float]()
    for tile_tokens in (None, 5):
        trainer = small_trainer(knobs=EngineKnobs(head_tile_tokens=tile_tokens), loss_aggregation="token_mean")
        sizes = list[int]()
        logits_of = trainer.model.logits

        def watched(hidden_CD: Tensor, logits_of=logits_of, sizes=sizes) -> Tensor:  # noqa: ANN001
            sizes.append(len(hidden_CD))
            return logits_of(hidden_CD)

        trainer.model.logits = watched  # type: ignore[method-assign]
        recorder = Recorder()
        batch = scored_batch()
        stats.append(trainer.update(trainer.prepare(batch, recorder), weights_version=5, recorder=recorder).grad_norm)
        assert max(sizes) <= (tile_tokens or 10**9)
    assert stats[1] == pytest.approx(stats[0], rel=1e-6)
