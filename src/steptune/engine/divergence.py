"""How many rows say something else when only the arithmetic differs, and from which token on.

The noise of a token is its own, so another batch composition, number of threads or number format changes a row only
where rounding carries a probability across the drawn uniform. From there on the row is another text: its later tokens
say nothing about rounding, which is why only the first difference counts.

Shape letters: B rows, T completion token.
"""

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.engine.types import RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Divergence:
    """Two rollouts of one batch of prompts: 256 rows of which 3 differ, first at tokens 4, 17 and 30."""

    num_rows: int
    first_tokens: tuple[int, ...]
    """Index of the first other token, by diverged row in ascending order of row."""
    num_same_tokens: int
    """Tokens before any difference, over all rows."""
    max_logprob_gap: float
    """Largest difference of the log-probs of these tokens: the rounding itself, in nats."""

    @property
    def rows_frac(self) -> float:
        """Part of the rows that differ anywhere."""
        return len(self.first_tokens) / self.num_rows

    @property
    def per_token(self) -> float:
        """Diverged rows per token that could have diverged."""
        return len(self.first_tokens) / (self.num_same_tokens + len(self.first_tokens))

    def __str__(self) -> str:
        """Return it as one line."""
        text = f"{len(self.first_tokens)} of {self.num_rows} rows differ ({self.per_token:.2g} per token)"
        return text + (
            f", first at token {statistics.median(self.first_tokens):g} (median)" if self.first_tokens else ""
        )


def divergence(a: RolloutBatch, b: RolloutBatch) -> Divergence:
    """Compare two rollouts of the same prompts and seed, row by row."""
    width = max(a.completion_BT.shape[1], b.completion_BT.shape[1])
    token_2BT = torch.stack([_widened(x.completion_BT, x.mask_BT, width) for x in (a, b)])
    is_other_BT = token_2BT[0] != token_2BT[1]
    diverges_B = is_other_BT.any(1)
    length_B = torch.minimum(a.lengths_B, b.lengths_B)
    first_B = torch.where(diverges_B, is_other_BT.int().argmax(1), length_B)
    gap_2BT = torch.stack([_widened(x.logprobs_BT, x.mask_BT, width) for x in (a, b)])
    is_same_BT = torch.arange(width) < first_B[:, None]
    gaps = (gap_2BT[0] - gap_2BT[1]).abs()[is_same_BT]
    return Divergence(
        num_rows=len(first_B),
        first_tokens=tuple(first_B[diverges_B].tolist()),
        num_same_tokens=int(first_B.sum()),
        max_logprob_gap=float(gaps.max()) if len(gaps) else 0.0,
    )


def _widened(values_BT: Tensor, mask_BT: Tensor, width: int) -> Tensor:
    """Return the values with -1 wherever there is no token, so that a row that ends earlier is another row."""
    kept_BT = values_BT.masked_fill(~mask_BT, -1)
    return torch.nn.functional.pad(kept_BT, (0, width - kept_BT.shape[1]), value=-1)
