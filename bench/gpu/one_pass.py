"""One forward and backward of a whole model through the engine's own inputs: log-probs, and every gradient.

Shape letters: B rows, T completion token, C completion tokens.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gpu.models import PAD
from steptune.engine.head import token_logprobs
from steptune.engine.inputs import MicroInputs, build_inputs, join_rows
from steptune.engine.knobs import Dispatch
from steptune.engine.model import Transformer
from steptune.engine.offload.step import OffloadStep
from steptune.engine.plan import Layout, plan_batch
from steptune.engine.routes import RouteTape
from steptune.engine.types import ScoredBatch

WHOLE = 10**9
"""A token budget that keeps every batch in one micro-batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """What one pass gave, on the host."""

    logprobs_BT: Tensor
    gradients: list[Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        """All of it, to compare."""
        return [self.logprobs_BT, *self.gradients]


def inputs_of(batch: ScoredBatch, layout: Layout, device: torch.device) -> MicroInputs:
    """Return a batch as one micro-batch on ``device``."""
    prompts, rollout = batch.rollout.prompts, batch.rollout
    plan = plan_batch(
        prompts.lengths_B.tolist(),
        rollout.lengths_B.tolist(),
        layout=layout,
        token_budget=WHOLE,
        max_completion_len=1,
        group_B=prompts.group_B.tolist(),
    )
    return build_inputs(join_rows(rollout, PAD), plan.micro_batches[0], device)


def through_layers(model: Transformer, inputs: MicroInputs) -> None:
    """Run the layers forward and backward under bf16 autocast, and nothing else."""
    with torch.autocast(inputs.tokens_N.device.type, dtype=torch.bfloat16):
        hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, inputs.context)
    hidden_ND.float().square().mean().backward()


def one_pass(
    model: Transformer,
    batch: ScoredBatch,
    *,
    layout: Layout = "packed",
    is_bf16: bool = False,
    recompute: bool | OffloadStep = False,
    dispatch: Dispatch = "grouped",
    routes: RouteTape | None = None,
) -> Pass:
    """Return log-probs and gradients of a fixed weighting of them; ``is_bf16`` runs the forward under autocast."""
    device = model.embed.weight.device
    inputs = inputs_of(batch, layout, device)
    context = replace(inputs.context, moe_dispatch=dispatch, routes=routes)
    model.zero_grad(set_to_none=True)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_bf16):
        hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, context, recompute=recompute)
        predicting_CD = hidden_ND.index_select(0, inputs.predict_C)
        logprob_C = token_logprobs(predicting_CD, model.head_weight, inputs.target_C, temperature=1.0, tile_tokens=None)
    weight_C = batch.advantage_B.to(device)[inputs.row_C]
    (logprob_C * weight_C).sum().backward()
    logprobs_BT = torch.zeros(batch.rollout.completion_BT.shape, device=device)
    logprobs_BT.view(-1)[inputs.flat_C] = logprob_C.detach().float()
    gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return Pass(logprobs_BT=logprobs_BT.cpu(), gradients=gradients)
