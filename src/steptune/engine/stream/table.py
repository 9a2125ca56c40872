"""What the rows of a stream have said, line by line; a line is taken again when its group has left.

Shape letters: R lines, g rows of a group, n running rows, T completion token, L position.
"""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from steptune.core.model import ExpertFields, ModelSpec
from steptune.engine.attention import CPU
from steptune.engine.outputs import Outputs
from steptune.engine.routes import NOT_RECORDED, no_routes
from steptune.engine.stream.groups import Said


@final
class RowTable:
    """Lines for ``num_rows`` rows of up to ``width`` tokens, on the model's device."""

    def __init__(
        self, spec: ModelSpec, num_rows: int, width: int, pad_id: int, device: torch.device, *, with_raw: bool
    ) -> None:
        self.spec, self.width, self.pad_id, self.device = spec, width, pad_id, device
        self.outputs = Outputs.empty(num_rows, width, pad_id, device, None, with_raw=with_raw)
        self.version_RT = torch.zeros(num_rows, width, dtype=torch.int32, device=device)
        self.length_R = torch.zeros(num_rows, dtype=torch.int64, device=device)
        self.is_done_R = torch.zeros(num_rows, dtype=torch.bool, device=device)
        self._free = list(range(num_rows - 1, -1, -1))

    def record_routes(self, max_len: int) -> None:
        """Make room for the experts of rows of up to ``max_len`` positions; nothing to a model without experts."""
        if not isinstance(self.spec, ExpertFields):
            return
        wide, old = no_routes(self.spec, len(self.length_R), max_len, self.device), self.outputs.routes_BLJk
        if old is not None:
            wide[:, : old.shape[1]] = old
        self.outputs = replace(self.outputs, routes_BLJk=wide)

    def take(self, said: Said | None, num_rows: int) -> Tensor:
        """Take lines for a group that has said nothing, or what it carries; return their numbers [g]."""
        row_g = torch.tensor([self._free.pop() for _ in range(num_rows)], device=self.device)
        self.length_R[row_g], self.is_done_R[row_g] = 0, False
        if self.outputs.routes_BLJk is not None:
            self.outputs.routes_BLJk[row_g] = NOT_RECORDED
        if said is not None:
            self._write(row_g, said)
        return row_g

    def leave(self, row_g: Tensor) -> Said:
        """Free lines and return what they held, on the host."""
        self._free.extend(row_g.tolist())
        out, routes = self.outputs, self.outputs.routes_BLJk
        return Said(
            completion_gT=out.token_BT[row_g].to(CPU),
            logprob_gT=out.logprob_BT[row_g].to(CPU),
            raw_logprob_gT=None if out.raw_logprob_BT is None else out.raw_logprob_BT[row_g].to(CPU),
            entropy_gT=out.entropy_BT[row_g].to(CPU),
            version_gT=self.version_RT[row_g].to(CPU),
            length_g=self.length_R[row_g].to(CPU),
            is_done_g=self.is_done_R[row_g].to(CPU),
            routes_gLJk=None if routes is None else routes[row_g].to(CPU),
        )

    def _write(self, row_g: Tensor, said: Said) -> None:
        out = self.outputs
        out.token_BT[row_g] = said.completion_gT.to(self.device)
        out.logprob_BT[row_g] = said.logprob_gT.to(self.device)
        out.entropy_BT[row_g] = said.entropy_gT.to(self.device)
        if out.raw_logprob_BT is not None and said.raw_logprob_gT is not None:
            out.raw_logprob_BT[row_g] = said.raw_logprob_gT.to(self.device)
        if out.routes_BLJk is not None and said.routes_gLJk is not None:
            out.routes_BLJk[row_g, : said.routes_gLJk.shape[1]] = said.routes_gLJk.to(self.device)
        self.version_RT[row_g] = said.version_gT.to(self.device)
        self.length_R[row_g] = said.length_g.to(self.device)
        self.is_done_R[row_g] = said.is_done_g.to(self.device)
