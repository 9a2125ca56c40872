"""The few tokens that both sides score at every hand-over between processes: the mismatch at equal weights.

One rule for every schedule whose data is older than the weights. The rollout scores token by token, so what a probe
costs is its iterations, not its rows: many rows, and the last few tokens of each, whose cache is the longest. What is
before them is prefilled at once.

Shape letters: B rows of the batch, r rows of the probe, T token scored.
"""

from dataclasses import replace

import torch
from torch.nn.utils.rnn import pad_sequence

from steptune.engine.produce import PAD, take_rows
from steptune.engine.types import RolloutBatch

PROBE_ROWS = 8
"""Rows scored, spread evenly over the batch's lengths. The trainer forwards them whole: 1 % of training on 256 rows."""

PROBE_TOKENS = 8
"""Last tokens scored of every row, and so the decode iterations of a probe: at most 64 tokens in 8 iterations. On
the lengths of bench/async.py (64 rows, median 34, longest 112) 8 whole rows of up to the median took 259 tokens in 34
iterations, beside 112 iterations of the rollout itself."""


def probe_rows(batch: RolloutBatch) -> RolloutBatch:
    """Return the probe of ``batch``: what its rows said before the last few tokens counts as prompt."""
    num_rows = min(PROBE_ROWS, len(batch.lengths_B))
    order_B = batch.lengths_B.argsort(stable=True)
    row_r = order_B[torch.linspace(0, len(order_B) - 1, num_rows).round().long()]
    rows = take_rows(batch, row_r, group_size=1)
    num_scored_r = rows.lengths_B.clamp(max=PROBE_TOKENS)
    num_before_r = rows.lengths_B - num_scored_r
    head_r = rows.prompts.lengths_B + num_before_r
    prompts, said = zip(rows.prompts.tokens_BP, rows.prompts.lengths_B.tolist(), strict=True), rows.completion_BT
    heads = [
        torch.cat((prompt[:length], tokens[:before]))
        for (prompt, length), tokens, before in zip(prompts, said, num_before_r.tolist(), strict=True)
    ]
    column_rT = num_before_r[:, None] + torch.arange(int(num_scored_r.max()))
    is_scored_rT = column_rT < rows.lengths_B[:, None]
    column_rT = column_rT.clamp(max=said.shape[1] - 1)
    return replace(
        rows,
        prompts=replace(
            rows.prompts, tokens_BP=pad_sequence(heads, batch_first=True, padding_value=PAD), lengths_B=head_r
        ),
        completion_BT=torch.where(is_scored_rT, said.gather(1, column_rT), PAD),
        lengths_B=num_scored_r,
        logprobs_BT=torch.where(is_scored_rT, rows.logprobs_BT.gather(1, column_rT), 0.0),
        raw_logprobs_BT=None,
        versions_BT=torch.where(is_scored_rT, rows.versions_BT.gather(1, column_rT), -1),
        routes_BLJk=None,  # both sides score it with weights that have not chosen yet
    )
