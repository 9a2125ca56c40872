"""The softmax of a decode iteration, in as few passes over the vocabulary as it takes.

With a vocabulary of 49,152 a pass over 32 rows is 6 MB; log-softmax, its exponential, the entropy's product and a
cumulative sum were 12 passes. Here the largest logit is taken off, and one exponential gives the normaliser, the
entropy and the weights to draw from. The log-prob of one token needs no table of log-probs.

Shape letters: n rows, V vocab.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Softmax:
    """exp(shifted) / exp(log_norm), never written out."""

    shifted_nV: Tensor
    """Logits less the largest of their row: 0 at the most likely token."""
    weights_nV: Tensor
    """exp(shifted): proportional to the probabilities."""
    log_norm_n: Tensor
    """Log of the sum of the weights."""
    entropy_n: Tensor
    """In nats."""

    def logprob(self, token_n: Tensor) -> Tensor:
        """Return the log-prob [n] of one token per row."""
        return self.shifted_nV.gather(1, token_n[:, None])[:, 0] - self.log_norm_n


def softmax(logits_nV: Tensor) -> Softmax:
    """Return the softmax of float32 logits, which are overwritten by the shifted ones: a table of megabytes less."""
    shifted_nV = logits_nV.sub_(logits_nV.amax(-1, keepdim=True))
    weights_nV = shifted_nV.exp()
    total_n = weights_nV.sum(-1)
    log_norm_n = total_n.log()
    # H = -sum(p log p) = log_norm - sum(weight * shifted) / total
    entropy_n = log_norm_n - torch.linalg.vecdot(weights_nV, shifted_nV) / total_n
    return Softmax(shifted_nV=shifted_nV, weights_nV=weights_nV, log_norm_n=log_norm_n, entropy_n=entropy_n)
