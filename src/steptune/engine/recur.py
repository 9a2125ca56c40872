"""Recurrent layers in training: each document's convolution and state begin empty, however documents are laid out.

The convolution works on the flat positions: position i sees position i - s only where its document is that long.
The scan needs rows of one width; documents are gathered into a padded table whose padding changes no state, once per
micro-batch the same index for every layer. Both layouts with and without padding are runs here too (`plan`).

Shape letters: N positions, C channels, K convolution width, R rows, W widest row, H heads, X any width.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.core.errors import JobError, explain
from steptune.engine.micro_batch import Run
from steptune.engine.models.delta_rule import scan


@final
class RunsRecur:
    """The `recur` of one micro-batch laid out as runs."""

    def __init__(self, runs: Sequence[Run], device: torch.device) -> None:
        self.runs, self.device = runs, device

    @cached_property
    def index(self) -> "RowIndex":
        """Where rows lie, built by the first recurrent layer: a model without one never asks.

        Raises:
            JobError: rows continue a shared prompt.
        """
        return RowIndex(self.runs, self.device)

    def conv(self, layer: int, x_NC: Tensor, weight_CK: Tensor) -> Tensor:
        """Return the causal depthwise convolution [N, C]; the last weight is the position's own."""
        width = weight_CK.shape[1]
        out_NC = x_NC * weight_CK[:, -1]
        for back in range(1, min(width, len(x_NC))):
            earlier_NC = F.pad(x_NC[:-back], (0, 0, back, 0))
            is_inside_N1 = (self.index.position_N >= back)[:, None]
            out_NC = out_NC + torch.where(is_inside_N1, earlier_NC, 0.0) * weight_CK[:, -1 - back]
        return out_NC

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
        """Return the gated delta rule's output [N, heads, value dim]."""
        rows = [self._table(x) for x in (q, k, v)]
        changes = [self._table(x) * self.index.kept_RW[..., None] for x in (log_decay, beta)]
        out_RWHV, _state = scan(*rows, *changes)
        out = out_RWHV.flatten(0, 1)
        return out if self.index.is_table else out.index_select(0, self.index.place_N)

    def _table(self, x_NX: Tensor) -> Tensor:
        index = self.index
        if index.is_table:
            return x_NX.unflatten(0, index.kept_RW.shape)
        return x_NX.index_select(0, index.index_RW.flatten()).unflatten(0, index.kept_RW.shape)


@final
class RowIndex:
    """Documents as rows of a padded table, counted on the host and moved once: no layer makes the host wait."""

    def __init__(self, runs: Sequence[Run], device: torch.device) -> None:
        if any(run.prefix for run in runs):
            raise JobError(
                explain(
                    "a recurrent layer cannot continue a shared prompt",
                    got="layout `shared_prefix` with a hybrid model",
                    allowed="`padded`, `sorted` or `packed`",
                    hint="use layout `packed`: the state at the end of a prompt exists only after running it",
                )
            )
        width_R = torch.tensor([run.width for run in runs for _ in range(run.num_rows)])
        start_R = width_R.cumsum(0) - width_R
        column_W = torch.arange(int(width_R.max()))
        kept_RW = column_W < width_R[:, None]
        self.kept_RW = kept_RW.to(device)
        self.index_RW = torch.where(kept_RW, start_R[:, None] + column_W, 0).to(device)
        self.position_N = column_W.expand_as(kept_RW)[kept_RW].to(device)
        self.place_N = kept_RW.flatten().nonzero()[:, 0].to(device)
        """Place of each position in the flattened table."""
        self.is_table = len(runs) == 1
        """One run of equal rows is a table already: nothing is gathered."""
