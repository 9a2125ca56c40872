"""Loss and gradient of one batch, for the rows that one trainer rank computes. Owns no optimizer and steps nothing.

::

    lay_out(prepared)        plan of this rank's rows, and the batch's tokens side by side
    accumulate(laid, n)      every micro-batch of update n: forward, loss, backward; gradients add up in the model

The surprise: the loss of a row is divided by what the *whole* update holds, whichever rank computes it. So gradients of
ranks are summed, never averaged, and no rank needs to ask another for a count (see `ranks`).

Batches and what is returned live on the host, weights and the loss on the model's device (not run on CUDA yet).

Shape letters: B rows, T completion token, C completion tokens of a micro-batch.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from steptune.core.job import AlgorithmSpec
from steptune.core.phase import Role
from steptune.engine.compiled import Compiled, check_torch
from steptune.engine.context import run_as_is
from steptune.engine.correction import correction_weights
from steptune.engine.events import Recorder
from steptune.engine.head import token_logprobs
from steptune.engine.inputs import JoinedRows, MicroInputs, build_inputs, groups_share_prompts, join_rows
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import MicroBatch
from steptune.engine.model import Transformer
from steptune.engine.offload.devices import offload_to_host
from steptune.engine.offload.step import Offload, OffloadStep, activations
from steptune.engine.plan import TrainPlan, plan_batch
from steptune.engine.policy_loss import aggregation_weights, kl_estimate, policy_token_loss
from steptune.engine.threads import torch_threads
from steptune.engine.types import PreparedBatch, RolloutBatch
from steptune.engine.warm_up import WARM_UP_RUNS, made_up_inputs


@dataclass(frozen=True, kw_only=True, slots=True)
class LaidOut:
    """One batch as one rank trains it."""

    prepared: PreparedBatch
    joined: JoinedRows
    plan: TrainPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One rank's part of an update: ``Share(loss=0.006, num_tokens=1510, tokens_of_update=3068)``."""

    loss: float
    """The update's loss is the sum over ranks."""
    num_tokens: int
    """Completion tokens that this rank trained."""
    tokens_of_update: int
    """Completion tokens whose weights the loss was normalised over: those of all ranks."""
    num_same_routes: int = 0
    """Of `num_routes`, those that the trainer's own router would have chosen too."""
    num_routes: int = 0
    """Experts of the rollout that were replayed on this rank."""
    num_compiled: int = 0
    """Graphs that this rank compiled since it last said so; its warm-up's are not counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenTensors:
    """Per-token inputs of the loss for one optimizer update, over the whole rollout batch."""

    weight_BT: Tensor
    advantage_B: Tensor
    rollout_BT: Tensor
    old_BT: Tensor | None
    ref_BT: Tensor | None
    num_tokens: int


@final
class Gradients:
    """Computes with one model; see the module for the order of calls."""

    def __init__(
        self,
        model: Transformer,
        algorithm: AlgorithmSpec,
        knobs: EngineKnobs,
        pad_id: int,
        reference: Transformer | None = None,
        *,
        rank: int = 0,
    ) -> None:
        """``rank`` is whose rows of `EngineKnobs.train_ranks` are computed."""
        self.model = model
        self.device = model.embed.weight.device
        self.algorithm = algorithm
        self.reference = reference
        self.pad_id = pad_id
        self.rank = rank
        self.between: Callable[[], None] = nothing
        """Called before every micro-batch; what it raises ends the pass."""
        self.num_plans_built = 0
        self.num_inputs_built = 0
        self.compiled = Compiled()
        self.warm_up_s = 0.0
        """Seconds that compiling has taken before any step."""
        self._warmed = set[tuple[object, ...]]()
        self.configure(knobs)

    def configure(self, knobs: EngineKnobs) -> None:
        """Switch to other knobs between two batches; with `compile` all that they need is compiled now."""
        self.knobs = knobs
        self.offload: Offload | None = offload_to_host(self.device) if knobs.offload else None
        if knobs.compile:
            self.warm_up()

    def warm_up(self) -> None:
        """Compile every region under the present knobs, forward and backward.

        Weights and gradients stay as they are. Several sizes are run to show the compiler that sizes change.
        """
        key = (self.knobs.train_threads, self.knobs.train_dtype, self.knobs.recompute)
        if key in self._warmed:
            return
        check_torch()
        assert all(p.grad is None for p in self.model.parameters()), "between two updates there is no gradient"
        start_s = time.perf_counter()
        with torch_threads(self.knobs.train_threads):
            for runs in WARM_UP_RUNS:
                inputs = made_up_inputs(runs, self.device)
                self._forward(self.model, inputs, recompute=self.knobs.recompute).sum().backward()
        for param in self.model.parameters():
            param.grad = None
        self._warmed.add(key)
        self.warm_up_s += time.perf_counter() - start_s
        self.compiled.take()

    @torch.no_grad()
    def logprobs(
        self, batch: RolloutBatch, batch_tokens: int, model: Transformer | None = None, *, num_ranks: int = 1
    ) -> Tensor:
        """Return float32 [B, T] log-probs of the completions (0 in the padding), forward only.

        ``batch_tokens`` bounds the positions of one forward; ``model`` defaults to the trained one. Of ``num_ranks``
        above one, only this rank's rows are computed and the others are 0, so the ranks' tables add up.
        """
        joined = join_rows(batch, self.pad_id)
        out_BT = torch.zeros(batch.completion_BT.shape, device=self.device)
        # one pass cuts nothing, so its rows need not be whole groups: a hand-over's probe has a few of any
        plan = self._plan(batch, token_budget=batch_tokens, num_updates=1, num_ranks=num_ranks, group_size=1)
        for micro in plan.micro_batches:
            inputs = self._inputs(joined, micro)
            out_BT.view(-1)[inputs.flat_C] = self._forward(model or self.model, inputs)
        return out_BT.cpu()

    def lay_out(self, prepared: PreparedBatch) -> LaidOut:
        """Plan this rank's rows of every update."""
        rollout, knobs = prepared.scored.rollout, self.knobs
        plan = self._plan(
            rollout,
            token_budget=knobs.micro_batch_tokens,
            num_updates=self.algorithm.num_updates,
            num_ranks=knobs.train_ranks,
            group_size=self.algorithm.group_size,
        )
        return LaidOut(prepared=prepared, joined=join_rows(rollout, self.pad_id), plan=plan)

    def accumulate(self, laid: LaidOut, number: int, recorder: Recorder, cur_BT: Tensor) -> Share:
        """Add up the gradient of update ``number``; fill its rows of ``cur_BT`` with the log-probs of now."""
        tokens = self._token_tensors(laid, number)
        total, num_tokens = torch.zeros((), device=self.device), 0
        routes_2 = torch.zeros(2, dtype=torch.int64, device=self.device)
        for micro in laid.plan.updates[number]:
            with recorder.span(Role.TRAINER, "train/plan"):
                inputs = self._inputs(laid.joined, micro)
            with activations(self.knobs.recompute, self.offload) as recompute:
                with recorder.span(Role.TRAINER, "train/forward"):
                    cur_C = self._forward(self.model, inputs, recompute=recompute)
                    loss = self._loss(cur_C, inputs, tokens)
                with recorder.span(Role.TRAINER, "train/backward"):
                    loss.backward()
            tape = inputs.context.routes
            agreement_2 = None if tape is None else tape.agreement()
            routes_2 += 0 if agreement_2 is None else agreement_2
            total += loss.detach()
            num_tokens += len(inputs.flat_C)
            cur_BT.view(-1)[inputs.flat_C] = cur_C.detach()
        num_same, num_routes = routes_2.tolist()
        return Share(
            loss=float(total),
            num_tokens=num_tokens,
            tokens_of_update=tokens.num_tokens,
            num_same_routes=num_same,
            num_routes=num_routes,
            num_compiled=self.compiled.take(),
        )

    def _plan(
        self, batch: RolloutBatch, *, token_budget: int, num_updates: int, num_ranks: int, group_size: int
    ) -> TrainPlan:
        self.num_plans_built += 1
        assert self.knobs.layout != "shared_prefix" or groups_share_prompts(batch.prompts), "a group has two prompts"
        return plan_batch(
            batch.prompts.lengths_B.tolist(),
            batch.lengths_B.tolist(),
            layout=self.knobs.layout,
            token_budget=token_budget,
            max_completion_len=self.algorithm.max_completion_len,
            num_updates=num_updates,
            group_size=group_size,
            group_B=batch.prompts.group_B.tolist(),
            rank=self.rank,
            num_ranks=num_ranks,
        )

    def _inputs(self, joined: JoinedRows, micro: MicroBatch) -> MicroInputs:
        self.between()
        self.num_inputs_built += 1
        return build_inputs(joined, micro, self.device)

    def _token_tensors(self, laid: LaidOut, number: int) -> _TokenTensors:
        """Return the update's tensors. The weights are made from its rows on *all* ranks, never from one rank's."""
        prepared, mask_BT, rows = laid.prepared, laid.joined.mask_BT, laid.plan.update_rows[number]
        batch = prepared.scored
        update_BT = mask_BT & rows_mask(rows, mask_BT.shape[0])[:, None]
        weight_BT = aggregation_weights(
            update_BT & batch.train_mask_B[:, None],
            how=self.algorithm.loss_aggregation,
            max_completion_len=self.algorithm.max_completion_len,
        )
        return _TokenTensors(
            weight_BT=weight_BT.float().to(self.device),
            advantage_B=batch.advantage_B.to(self.device),
            rollout_BT=batch.rollout.logprobs_BT.to(self.device),
            old_BT=_moved(prepared.old_logprobs_BT, self.device),
            ref_BT=_moved(prepared.ref_logprobs_BT, self.device),
            num_tokens=int(update_BT.sum()),
        )

    def _forward(self, model: Transformer, inputs: MicroInputs, *, recompute: bool | OffloadStep = False) -> Tensor:
        """Return float32 [C] log-probs of the completion tokens under the sampling temperature."""
        replays = self.knobs.router_replay and model is self.model
        routes = inputs.context.routes if replays else None  # the reference chooses for itself
        # passes without gradients stay as they are: their graphs are others, and would double what is compiled
        run = self.compiled if self.knobs.compile and torch.is_grad_enabled() else run_as_is
        context = replace(inputs.context, moe_dispatch=self.knobs.moe_dispatch, routes=routes, run=run)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.knobs.train_dtype == "bf16"):
            hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, context, recompute=recompute)
            return token_logprobs(
                hidden_ND.index_select(0, inputs.predict_C),
                model.head_weight,
                inputs.target_C,
                temperature=self.algorithm.temperature,
                tile_tokens=self.knobs.head_tile_tokens,
                run=context.run,
            )

    def _loss(self, cur_C: Tensor, inputs: MicroInputs, tokens: _TokenTensors) -> Tensor:
        algorithm = self.algorithm
        old_C = cur_C.detach() if tokens.old_BT is None else tokens.old_BT.view(-1)[inputs.flat_C]
        loss_C = policy_token_loss(
            cur_C,
            old_C,
            tokens.advantage_B[inputs.row_C],
            clip_low=algorithm.clip_low,
            clip_high=algorithm.clip_high,
            dual_clip=algorithm.dual_clip,
        )
        if self.knobs.correction != "none":
            rollout_C = tokens.rollout_BT.reshape(-1)[inputs.flat_C]
            bounds = algorithm.correction
            loss_C = loss_C * correction_weights(
                old_C, rollout_C, inputs.row_C, kind=self.knobs.correction, cap=bounds.cap, floor=bounds.floor
            )
        if tokens.ref_BT is not None:
            ref_C = tokens.ref_BT.view(-1)[inputs.flat_C]
            loss_C = loss_C + algorithm.kl_coef * kl_estimate(cur_C, ref_C, algorithm.kl_form)
        return (loss_C * tokens.weight_BT.view(-1)[inputs.flat_C]).sum()


def nothing() -> None:
    """Nothing to do between two micro-batches."""


def rows_mask(rows: Sequence[int], num_rows: int) -> Tensor:
    """Return bool [B], True on the given rows."""
    mask_B = torch.zeros(num_rows, dtype=torch.bool)
    mask_B[list(rows)] = True
    return mask_B


def update_of_rows(update_rows: Sequence[range]) -> Tensor:
    """Return int64 [B], the number of the update that trains each row; the ranges follow each other."""
    return torch.arange(len(update_rows)).repeat_interleave(torch.tensor([len(rows) for rows in update_rows]))


def _moved(x_BT: Tensor | None, device: torch.device) -> Tensor | None:
    return None if x_BT is None else x_BT.to(device)
