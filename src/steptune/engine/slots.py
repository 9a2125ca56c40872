"""Which rollout sits in which cache slot, and how far it has come.

All of it is one int64 table, so that rows enter and leave with one copy each. Running rows are always
slots 0..n-1: a finished row's hole is filled from the end, and only that row moves.
"""

from typing import Final, final

import torch
from torch import Tensor

ROW, POSITION, GENERATED, LIMIT, KEY, TOKEN = range(6)
"""Lines of the table: batch row; cache position of the token to feed; completion tokens so far; completion
tokens it may have; noise key; token to feed."""


@final
class Slots:
    """The table of running rows."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity: Final = capacity
        self.num_running = 0
        self._table = torch.zeros(6, capacity, dtype=torch.int64, device=device)

    def line(self, name: int) -> Tensor:
        """Return one line [n] of the running rows (a view)."""
        return self._table[name, : self.num_running]

    @property
    def num_free(self) -> int:
        """Rows that can still be admitted."""
        return self.capacity - self.num_running

    def admit(self, lines: Tensor) -> None:
        """Append rows given as a table [6, k]."""
        start = self.num_running
        self.num_running = start + lines.shape[1]
        self._table[:, start : self.num_running] = lines

    def advance(self, token_n: Tensor) -> None:
        """Book one more completion token for every running row."""
        self._table[POSITION : GENERATED + 1, : self.num_running] += 1
        self.line(TOKEN).copy_(token_n)

    def is_at_limit(self) -> Tensor:
        """Return bool [n], True where a row has all the tokens it may have."""
        return self.line(GENERATED) >= self.line(LIMIT)

    def retire(self, done_n: Tensor) -> tuple[Tensor, Tensor]:
        """Remove the rows marked in ``done_n``; return the slots (from, to) that moved to close the holes."""
        num_left = self.num_running - int(done_n.sum())
        target = done_n[:num_left].nonzero()[:, 0]
        source = (~done_n[num_left:]).nonzero()[:, 0] + num_left
        self._table[:, target] = self._table[:, source]
        self.num_running = num_left
        return source, target

    def clear(self) -> None:
        """Remove every row."""
        self.num_running = 0
