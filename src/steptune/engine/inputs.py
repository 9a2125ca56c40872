"""From a plan to tensors: what one micro-batch feeds the model and which outputs are log-probs.

Everything that depends on the layout is computed here once per micro-batch and handed to every layer; no
layer derives it again. Completion tokens are addressed by a flat index, so padding is never read back, and each
names the position that predicts it, so no row's end can predict the next row's beginning.

Shape letters: B rows, P prompt token, T completion token, L token of a joined row, R rows of a micro-batch,
N positions, C completion tokens of a micro-batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.engine.attention import CPU, attend_runs
from steptune.engine.context import Context
from steptune.engine.micro_batch import MicroBatch
from steptune.engine.recur import RunsRecur
from steptune.engine.routes import NOT_RECORDED, RouteTape
from steptune.engine.types import PromptBatch, RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedRows:
    """Prompt and completion of every row in one right-padded table."""

    tokens_BL: Tensor
    prompt_lengths_B: Tensor
    completion_BT: Tensor
    mask_BT: Tensor
    routes_BLJk: Tensor | None = None
    """Experts to be replayed, by position of the joined row."""


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
        routes_BLJk=_fed_routes(rollout),
    )


def _fed_routes(rollout: RolloutBatch) -> Tensor | None:
    """Return the recorded experts of positions whose output was used.

    A row's last token predicts nothing, and rows that were done before their wave went on being fed: what the table
    holds there is of other tokens, and is left to the trainer's own router.
    """
    if rollout.routes_BLJk is None:
        return None
    num_used_B = rollout.prompts.lengths_B + rollout.lengths_B - 1
    is_idle_BL = torch.arange(rollout.routes_BLJk.shape[1]) >= num_used_B[:, None]
    return rollout.routes_BLJk.masked_fill(is_idle_BL[:, :, None, None], NOT_RECORDED)


def groups_share_prompts(prompts: PromptBatch) -> bool:
    """Return whether all rows of each group have the same prompt, as a shared prefix takes for granted."""
    first_of = {group: row for row, group in reversed(list(enumerate(prompts.group_B.tolist())))}
    first_B = [first_of[group] for group in prompts.group_B.tolist()]
    tokens_BP, lengths_B = prompts.tokens_BP, prompts.lengths_B
    return torch.equal(tokens_BP, tokens_BP[first_B]) and torch.equal(lengths_B, lengths_B[first_B])


def build_inputs(joined: JoinedRows, micro: MicroBatch, device: torch.device = CPU) -> MicroInputs:
    """Return the tensors of one micro-batch, built on the host and moved to ``device`` once."""
    rows_R = torch.tensor(micro.prompts + micro.rows)
    width_R = torch.tensor([run.width for run in micro.runs for _ in range(run.num_rows)])
    prefix_R = torch.tensor([run.prefix for run in micro.runs for _ in range(run.num_rows)])
    column_W = torch.arange(int(width_R.max()))
    kept_RW = column_W < width_R[:, None]
    positions_N, row_N = (prefix_R[:, None] + column_W)[kept_RW], rows_R.repeat_interleave(width_R)
    routes_BLJk = joined.routes_BLJk
    local_C, token_C = joined.mask_BT[list(micro.rows)].nonzero(as_tuple=True)
    row_C = torch.tensor(micro.rows)[local_C]
    flat_C = row_C * joined.mask_BT.shape[1] + token_C
    predict_C = _predicting(micro, width_R.cumsum(0) - width_R, joined.prompt_lengths_B, local_C, token_C)
    return MicroInputs(
        tokens_N=joined.tokens_BL[row_N, positions_N].to(device),
        positions_N=positions_N.to(device),
        context=Context(
            attend=attend_runs(micro.runs, micro.prompt_of, device=device),
            recur=RunsRecur(micro.runs, device),
            routes=None if routes_BLJk is None else RouteTape.replaying(routes_BLJk[row_N, positions_N].to(device)),
        ),
        predict_C=predict_C.to(device),
        target_C=joined.completion_BT.flatten()[flat_C].to(device),
        row_C=row_C.to(device),
        flat_C=flat_C.to(device),
    )


def _predicting(
    micro: MicroBatch, start_R: Tensor, prompt_lengths_B: Tensor, local_C: Tensor, token_C: Tensor
) -> Tensor:
    """Return the position before each completion token; a shared prompt's last one is before G first tokens."""
    last_of_prompt = prompt_lengths_B[list(micro.rows)] - 1
    if not micro.prompts:
        return (start_R + last_of_prompt)[local_C] + token_C
    first_R = start_R[list(micro.prompt_of)] + last_of_prompt
    own_R = start_R[len(micro.prompts) :]
    return torch.where(token_C == 0, first_R[local_C], own_R[local_C] + token_C - 1)
