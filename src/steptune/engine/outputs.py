"""Where rows in the making write their tokens, one line a row.

Shape letters: B rows, T completion token, n running rows, L position, J layer, k chosen experts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.engine.choose import Chosen
from steptune.engine.ends import is_end
from steptune.engine.types import PromptBatch, RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """Buffers rows write to; entries at or behind a row's end are meaningless."""

    token_BT: Tensor
    logprob_BT: Tensor
    raw_logprob_BT: Tensor | None
    """At temperature 1; None where that is what was sampled from."""
    entropy_BT: Tensor
    routes_BLJk: Tensor | None
    """Experts by row and cache position, if they are to be recorded."""

    @staticmethod
    def empty(
        num_rows: int, max_len: int, pad_id: int, device: torch.device, routes_BLJk: Tensor | None, *, with_raw: bool
    ) -> "Outputs":
        """Return padded buffers."""
        zeros = torch.zeros(3, num_rows, max_len, device=device)
        return Outputs(
            token_BT=torch.full((num_rows, max_len), pad_id, device=device),
            logprob_BT=zeros[0],
            raw_logprob_BT=zeros[1] if with_raw else None,
            entropy_BT=zeros[2],
            routes_BLJk=routes_BLJk,
        )

    def write(self, chosen: Chosen, row_n: Tensor, generated_n: Tensor) -> None:
        """Book one token of each row."""
        self.token_BT[row_n, generated_n] = chosen.token_n
        self.logprob_BT[row_n, generated_n] = chosen.logprob_n
        self.entropy_BT[row_n, generated_n] = chosen.entropy_n
        if self.raw_logprob_BT is not None and chosen.raw_logprob_n is not None:
            self.raw_logprob_BT[row_n, generated_n] = chosen.raw_logprob_n

    def to(self, device: torch.device) -> "Outputs":
        """Return them on ``device``."""
        return Outputs(
            token_BT=self.token_BT.to(device),
            logprob_BT=self.logprob_BT.to(device),
            raw_logprob_BT=None if self.raw_logprob_BT is None else self.raw_logprob_BT.to(device),
            entropy_BT=self.entropy_BT.to(device),
            routes_BLJk=None if self.routes_BLJk is None else self.routes_BLJk.to(device),
        )


def completed(
    prompts: PromptBatch,
    outputs: Outputs,
    lengths_B: Tensor,
    version_BT: Tensor,
    *,
    pad_id: int,
    eos_ids: tuple[int, ...],
    is_forced: bool,
) -> RolloutBatch:
    """Return rows that have ended, cut to the longest; forced lengths count as finished.

    ``version_BT`` int [B, T] (or [1, 1]: one for all) sampled each token. The log-probs are not looked at: see
    `rollout_checks.check_logprobs`.
    """
    width = int(lengths_B.max())
    mask_BT = torch.arange(width, device=lengths_B.device) < lengths_B[:, None]
    completion_BT = outputs.token_BT[:, :width].masked_fill(~mask_BT, pad_id)
    last_B, raw_BT = completion_BT.gather(1, lengths_B[:, None] - 1)[:, 0], outputs.raw_logprob_BT
    return RolloutBatch(
        prompts=prompts,
        completion_BT=completion_BT,
        lengths_B=lengths_B,
        logprobs_BT=torch.where(mask_BT, outputs.logprob_BT[:, :width], 0.0),
        raw_logprobs_BT=None if raw_BT is None else torch.where(mask_BT, raw_BT[:, :width], 0.0),
        versions_BT=torch.where(mask_BT, version_BT[:, :width], -1).int(),
        finished_B=torch.ones_like(last_B, dtype=torch.bool) if is_forced else is_end(last_B, eos_ids),
        entropy=float(outputs.entropy_BT[:, :width][mask_BT].mean()),
        routes_BLJk=outputs.routes_BLJk,
    )
