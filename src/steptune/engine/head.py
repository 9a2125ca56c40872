"""Log-probs of the completion tokens off the hidden states, whole or in tiles of positions.

With a large vocabulary the logits dwarf everything else a step holds: 4,096 completion tokens times 248,320
entries are 4 GB in float32, several times over with the softmax and its gradient. In tiles, only one tile's
logits exist at a time, forward and backward; the price is that the head's product is computed once more in
the backward pass. The surprise: a tile is an ordinary checkpoint, not a hand-written gradient, so whatever the
model's head does (tied, untied, bf16 autocast) is repeated as it was.

Shape letters: C completion tokens, D model, V vocab.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Logits = Callable[[Tensor], Tensor]
"""Hidden states [C, D] -> logits [C, V]: a model's `logits`."""


def token_logprobs(
    logits_of: Logits, hidden_CD: Tensor, target_C: Tensor, *, temperature: float, tile_tokens: int | None
) -> Tensor:
    """Return float32 [C] log-probs of ``target_C`` under the softmax of logits / ``temperature``.

    ``tile_tokens`` bounds the positions whose logits exist at once; None computes them all together.
    """

    def score(hidden_cD: Tensor, target_c: Tensor) -> Tensor:
        return -F.cross_entropy(_scaled(logits_of(hidden_cD), temperature), target_c, reduction="none")

    if tile_tokens is None or tile_tokens >= len(target_C):
        return score(hidden_CD, target_C)
    tiles = zip(hidden_CD.split(tile_tokens), target_C.split(tile_tokens), strict=True)
    return torch.cat([checkpoint(score, h, t, use_reentrant=False, preserve_rng_state=False) for h, t in tiles])


@torch.no_grad()
def token_entropies(logits_of: Logits, hidden_CD: Tensor, *, temperature: float, tile_tokens: int) -> Tensor:
    """Return float32 [C] entropies, in nats, of the softmax of logits / ``temperature``; no gradient."""

    def entropy(hidden_cD: Tensor) -> Tensor:
        logprob_cV = _scaled(logits_of(hidden_cD), temperature).log_softmax(-1)
        return -(logprob_cV.exp() * logprob_cV).sum(-1)

    return torch.cat([entropy(h) for h in hidden_CD.split(tile_tokens)])


def _scaled(logits_CV: Tensor, temperature: float) -> Tensor:
    # float64 stays as it is: gradients are compared in it
    return logits_CV.to(torch.promote_types(logits_CV.dtype, torch.float32)) / temperature
