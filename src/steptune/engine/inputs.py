"""From a plan to tensors: what one micro-batch feeds the model and which outputs are log-probs.

Everything that depends on the layout is computed here once per micro-batch and handed to every layer; no
layer derives it again. Completion tokens are addressed by a flat index, so padding is never read back.

Shape letters: B rows, P prompt token, T completion token, L token of a joined row, R rows of a micro-batch,
N positions, C completion tokens of a micro-batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.plan import MicroBatch
from steptune.engine.types import RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedRows:
    """Prompt and completion of every row in one right-padded table."""

    tokens_BL: Tensor
    prompt_lengths_B: Tensor
    completion_BT: Tensor
    mask_BT: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroInputs:
    """One micro-batch, ready for the model."""

    tokens_N: Tensor
    positions_N: Tensor
    context: Context
    predict_C: Tensor
    """Position whose output predicts each completion token."""
    target_C: Tensor
    """The completion tokens."""
    row_C: Tensor
    """Row of the rollout batch that each completion token belongs to."""
    flat_C: Tensor
    """Index of each completion token in a flattened [B, T] tensor."""


def join_rows(rollout: RolloutBatch, pad_id: int) -> JoinedRows:
    """Return prompt and completion side by side, right-padded with ``pad_id``."""
    prompts, mask_BT = rollout.prompts, rollout.mask_BT
    width = int((prompts.lengths_B + rollout.lengths_B).max())
    tokens_BL = torch.full((prompts.num_rows, width), pad_id, dtype=torch.int64)
    longest_prompt = int(prompts.lengths_B.max())
    tokens_BL[:, :longest_prompt] = prompts.tokens_BP[:, :longest_prompt]
    row_C, column_C = mask_BT.nonzero(as_tuple=True)
    tokens_BL[row_C, prompts.lengths_B[row_C] + column_C] = rollout.completion_BT[row_C, column_C]
    return JoinedRows(
        tokens_BL=tokens_BL,
        prompt_lengths_B=prompts.lengths_B,
        completion_BT=rollout.completion_BT,
        mask_BT=mask_BT,
    )


def build_inputs(joined: JoinedRows, micro: MicroBatch) -> MicroInputs:
    """Return the tensors of one micro-batch."""
    rows_R = torch.tensor(micro.rows)
    width_R = torch.tensor([run.width for run in micro.runs for _ in range(run.num_rows)])
    column_W = torch.arange(int(width_R.max()))
    kept_RW = column_W < width_R[:, None]
    start_R = width_R.cumsum(0) - width_R
    local_C, token_C = joined.mask_BT[rows_R].nonzero(as_tuple=True)
    row_C = rows_R[local_C]
    flat_C = row_C * joined.mask_BT.shape[1] + token_C
    return MicroInputs(
        tokens_N=joined.tokens_BL[rows_R, : len(column_W)][kept_RW],
        positions_N=column_W.expand(len(rows_R), -1)[kept_RW],
        context=Context(attend=attend_runs(micro.runs)),
        predict_C=start_R[local_C] + joined.prompt_lengths_B[row_C] - 1 + token_C,
        target_C=joined.completion_BT.flatten()[flat_C],
        row_C=row_C,
        flat_C=flat_C,
    )
