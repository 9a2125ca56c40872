"""The few rows that both sides score at a hand-over between processes: the mismatch at equal weights."""

from dataclasses import replace

import torch

from steptune.engine.produce import take_rows
from steptune.engine.types import RolloutBatch

PROBE_ROWS = 8
"""Rows of the last batch scored by both sides at a hand-over between processes, about 80 tokens. They are the
longest of those not above the median length: the rollout scores a row token by token, so one row of the tail
would cost as many iterations as a whole rollout."""


def probe_rows(batch: RolloutBatch) -> RolloutBatch:
    """Return `PROBE_ROWS` rows of ``batch``, cut to their own width."""
    lengths_B = batch.lengths_B
    shorter_B = torch.where(lengths_B <= lengths_B.median(), lengths_B, 0)
    rows_B = shorter_B.argsort(descending=True, stable=True)[:PROBE_ROWS]
    probe = take_rows(batch, rows_B, group_size=1)
    width = int(probe.lengths_B.max())
    return replace(
        probe,
        completion_BT=probe.completion_BT[:, :width],
        logprobs_BT=probe.logprobs_BT[:, :width],
        versions_BT=probe.versions_BT[:, :width],
        routes_BLJk=None,  # both sides score it with weights that have not chosen yet
    )
