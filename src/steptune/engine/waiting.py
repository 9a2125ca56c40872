"""Who waits for a slot, and who is next: by arrival, or the row that is expected to be longest.

With fewer slots than rows, a long row that starts last runs alone at the end while the slots beside it are empty.
Started first it overlaps the others. Lengths are not known beforehand: a row's is taken to be the mean of its group's
rows that have finished in this batch, else of the problem's rows the last time it was met (`LengthHistory`), else the
mean of what is expected of the others. With nothing known, rows come in order of arrival. Surprise: no order changes
what a row says, because its noise is its own (`sampling`).

Shape letters: B rows of the batch, k rows admitted or finished.
"""

from typing import final

import torch
from torch import Tensor

MAX_REMEMBERED = 100_000
"""Problems whose last length is kept, the oldest forgotten first: about 10 MB."""


@final
class Waiting:
    """The rows of one batch that have not been admitted yet."""

    def __init__(self, group_B: Tensor, expected_B: Tensor | None) -> None:
        """``expected_B``: float32, tokens expected of each row, NaN where unknown; None keeps the order of arrival."""
        self._group_B, self._expected_B = group_B, expected_B
        self._row_w = torch.arange(len(group_B), device=group_B.device)
        num_groups = int(group_B.max()) + 1
        self._sum_G, self._count_G = torch.zeros(2, num_groups, device=group_B.device)

    def __len__(self) -> int:
        return len(self._row_w)

    def take(self, num_rows: int) -> Tensor:
        """Remove the next ``num_rows`` rows (fewer at the end) and return their indices [k]."""
        if self._expected_B is not None:
            order_w = self._expectation(self._expected_B).argsort(descending=True, stable=True)
            self._row_w = self._row_w[order_w]
        taken, self._row_w = self._row_w[:num_rows], self._row_w[num_rows:].sort().values
        return taken

    def note(self, row_k: Tensor, length_k: Tensor) -> None:
        """Learn from rows that have finished."""
        if self._expected_B is None:
            return
        group_k = self._group_B[row_k]
        self._sum_G.index_add_(0, group_k, length_k.float())
        self._count_G.index_add_(0, group_k, torch.ones_like(length_k, dtype=torch.float32))

    def _expectation(self, expected_B: Tensor) -> Tensor:
        """Return tokens expected of every waiting row; equal where nothing is known."""
        group_w = self._group_B[self._row_w]
        of_group_w = self._sum_G[group_w] / self._count_G[group_w]  # 0 / 0 is NaN: no row has finished
        known_w = torch.where(of_group_w.isnan(), expected_B[self._row_w], of_group_w)
        return known_w.nan_to_num(nan=float(known_w.nanmean().nan_to_num()))


@final
class LengthHistory:
    """How long the rows of each problem were the last time."""

    def __init__(self) -> None:
        self._length: dict[int, float] = {}

    def expected(self, problem_B: Tensor) -> Tensor:
        """Return float32 [B], NaN for problems never met."""
        return torch.tensor([self._length.get(problem, torch.nan) for problem in problem_B.tolist()])

    def note(self, problem_B: Tensor, lengths_B: Tensor) -> None:
        """Remember the mean length of every problem in a finished batch."""
        met: dict[int, list[int]] = {}
        for problem, length in zip(problem_B.tolist(), lengths_B.tolist(), strict=True):
            met.setdefault(problem, []).append(length)
        for problem, lengths in met.items():
            self._length.pop(problem, None)
            self._length[problem] = sum(lengths) / len(lengths)
        for problem in list(self._length)[: max(0, len(self._length) - MAX_REMEMBERED)]:
            del self._length[problem]
