"""The trainer: one rollout batch in, one or more optimizer updates out.

::

    prepare(batch)   old-log-prob and reference passes, only where the algorithm needs them (own top-level spans)
    update(prepared) plan -> for every optimizer update: for every micro-batch: forward, backward; clip; AdamW

The surprise: with one update per rollout batch the old log-probs *are* the current ones, so without a
separate pass the ratio is exactly 1 and the loss only carries the gradient (as in TRL). The same forward
gives the gap to the rollout's log-probs for free.

Batches and what is returned live on the host, weights and the loss on the model's device (not run on CUDA yet).

Shape letters: B rows, T completion token, C completion tokens of a micro-batch.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.core.job import AlgorithmSpec
from steptune.core.phase import Phase, Role
from steptune.core.profile import LagStats
from steptune.engine.correction import correction_weights
from steptune.engine.events import Recorder
from steptune.engine.gap import gap_by_lag
from steptune.engine.head import token_logprobs
from steptune.engine.inputs import JoinedRows, MicroInputs, build_inputs, groups_share_prompts, join_rows
from steptune.engine.knob_checks import check_knobs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import MicroBatch
from steptune.engine.model import Transformer
from steptune.engine.offload.devices import offload_to_host
from steptune.engine.offload.step import Offload, OffloadStep, activations
from steptune.engine.plan import TrainPlan, plan_batch
from steptune.engine.policy_loss import aggregation_weights, kl_estimate, policy_token_loss
from steptune.engine.types import RolloutBatch, ScoredBatch

TrainerState = dict[str, Any]
"""Copies of the model's and the optimizer's `state_dict`, for `torch.save`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedBatch:
    """A scored batch and the log-probs that must be known before the first update."""

    scored: ScoredBatch
    old_logprobs_BT: Tensor | None
    """Under the weights before the first update; None where the first training forward gives them."""
    ref_logprobs_BT: Tensor | None
    """Under the SFT start; None without a KL term."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainStats:
    """What one rollout batch did to the weights.

    Example: ``TrainStats(loss=0.013, grad_norms=(0.41,), gap_by_lag=(LagStats(lag=0, ...),), num_updates=1,
    num_micro_batches=4, padded_tokens=6132, active_tokens=6132)``.
    """

    loss: float
    """Mean over the updates."""
    grad_norms: tuple[float, ...]
    """L2 norm before clipping, one per update."""
    gap_by_lag: tuple[LagStats, ...]
    """Trainer against rollout log-probs on the rows of the first update, before any of this batch's updates.
    Lag 0 is the mismatch at the same weights."""
    num_updates: int
    num_micro_batches: int
    padded_tokens: int
    """Positions of the training forward, padding included."""
    active_tokens: int
    """Prompt and completion tokens computed; a shared prompt counts once for its group."""

    @property
    def grad_norm(self) -> float:
        """Mean gradient norm of the updates."""
        return sum(self.grad_norms) / len(self.grad_norms)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenTensors:
    """Per-token inputs of the loss for one optimizer update, over the whole rollout batch."""

    weight_BT: Tensor
    advantage_B: Tensor
    rollout_BT: Tensor
    old_BT: Tensor | None
    ref_BT: Tensor | None


@final
class Trainer:
    """Owns the optimizer of one model; see the module for the order of calls."""

    def __init__(
        self,
        model: Transformer,
        algorithm: AlgorithmSpec,
        knobs: EngineKnobs,
        pad_id: int,
        reference: Transformer | None = None,
    ) -> None:
        """Make an AdamW optimizer for ``model``; ``reference`` is read only, for the KL term.

        Raises:
            JobError: the knobs do not fit the algorithm (see `configure`).
        """
        assert (reference is not None) == (algorithm.kl_coef > 0), "a KL term and a reference model go together"
        self.model = model
        self.device = model.embed.weight.device
        self.algorithm = algorithm
        self.reference = reference
        self.pad_id = pad_id
        self.configure(knobs)
        self.num_plans_built = 0
        self.num_inputs_built = 0
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=algorithm.lr, weight_decay=algorithm.weight_decay, fused=True
        )

    def configure(self, knobs: EngineKnobs) -> None:
        """Switch to other knobs between two batches.

        Raises:
            JobError: the knobs do not fit the algorithm or the model (see `knob_checks`).
        """
        check_knobs(knobs, self.algorithm, self.model.spec)
        self.knobs = knobs
        self.offload: Offload | None = None
        if knobs.offload:
            self.offload = offload_to_host(self.device)

    def prepare(self, batch: ScoredBatch, recorder: Recorder) -> PreparedBatch:
        """Run the passes that come before training, each in its own top-level span."""
        old_BT = ref_BT = None
        if self.knobs.logprob_batch_tokens is not None:
            with recorder.span(Role.TRAINER, Phase.OLD_LOGPROB):
                old_BT = self.logprobs(batch.rollout, self.knobs.logprob_batch_tokens)
        if self.reference is not None:
            budget = self.knobs.logprob_batch_tokens or self.knobs.micro_batch_tokens
            with recorder.span(Role.TRAINER, Phase.REF_LOGPROB):
                ref_BT = self.logprobs(batch.rollout, budget, self.reference)
        return PreparedBatch(scored=batch, old_logprobs_BT=old_BT, ref_logprobs_BT=ref_BT)

    @torch.no_grad()
    def logprobs(self, batch: RolloutBatch, batch_tokens: int, model: Transformer | None = None) -> Tensor:
        """Return float32 [B, T] log-probs of the completions (0 in the padding), forward only.

        ``batch_tokens`` bounds the positions of one forward; ``model`` defaults to the trained one.
        """
        joined = join_rows(batch, self.pad_id)
        out_BT = torch.zeros(batch.completion_BT.shape, device=self.device)
        for micro in self._plan(batch, token_budget=batch_tokens, num_updates=1).micro_batches:
            inputs = self._inputs(joined, micro)
            out_BT.view(-1)[inputs.flat_C] = self._forward(model or self.model, inputs)
        return out_BT.cpu()

    def update(self, prepared: PreparedBatch, *, weights_version: int, recorder: Recorder) -> TrainStats:
        """Train on one batch: `algorithm.num_updates` optimizer steps. The caller books the `train` span.

        ``weights_version`` is the version of the weights before the first of these updates.

        Raises:
            TrialError: a gradient is not finite, and that update is not applied; or log-probs of the rollout are not,
                which a correction would take for tokens to leave out.
        """
        batch, algorithm = prepared.scored, self.algorithm
        rollout = batch.rollout
        if self.knobs.correction != "none":
            _check_finite(rollout)
        with recorder.span(Role.TRAINER, "train/plan"):
            plan = self._plan(rollout, token_budget=self.knobs.micro_batch_tokens, num_updates=algorithm.num_updates)
            joined = join_rows(rollout, self.pad_id)
        cur_BT = torch.zeros(rollout.completion_BT.shape, device=self.device)
        losses, grad_norms = list[float](), list[float]()
        for number, micros in enumerate(plan.updates):
            tokens = self._token_tensors(prepared, joined, micros)
            losses.append(self._accumulate(joined, micros, tokens, recorder, cur_BT if number == 0 else None))
            with recorder.span(Role.TRAINER, "train/optimizer"):
                grad_norms.append(self._step())
        return TrainStats(
            loss=sum(losses) / len(losses),
            grad_norms=tuple(grad_norms),
            gap_by_lag=gap_by_lag(
                cur_BT.cpu(),
                rollout.logprobs_BT,
                joined.mask_BT & _rows_mask(plan.updates[0], joined.mask_BT.shape[0])[:, None],
                rollout.versions_BT,
                trainer_version=weights_version,
            ),
            num_updates=len(plan.updates),
            num_micro_batches=len(plan.micro_batches),
            padded_tokens=plan.padded_tokens,
            active_tokens=plan.active_tokens,
        )

    def state(self) -> TrainerState:
        """Return copies of weights and optimizer state: with them a run continues exactly."""
        return copy.deepcopy({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})

    def load_state(self, state: TrainerState) -> None:
        """Continue from what `state` returned; the model's tensors are written in place."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))

    def _plan(self, batch: RolloutBatch, *, token_budget: int, num_updates: int) -> TrainPlan:
        self.num_plans_built += 1
        assert self.knobs.layout != "shared_prefix" or groups_share_prompts(batch.prompts), "a group has two prompts"
        return plan_batch(
            batch.prompts.lengths_B.tolist(),
            batch.lengths_B.tolist(),
            layout=self.knobs.layout,
            token_budget=token_budget,
            max_completion_len=self.algorithm.max_completion_len,
            num_updates=num_updates,
            group_size=self.algorithm.group_size,
            group_B=batch.prompts.group_B.tolist(),
        )

    def _inputs(self, joined: JoinedRows, micro: MicroBatch) -> MicroInputs:
        self.num_inputs_built += 1
        return build_inputs(joined, micro, self.device)

    def _token_tensors(
        self, prepared: PreparedBatch, joined: JoinedRows, micros: Sequence[MicroBatch]
    ) -> _TokenTensors:
        batch = prepared.scored
        rows_B = _rows_mask(micros, joined.mask_BT.shape[0]) & batch.train_mask_B
        weight_BT = aggregation_weights(
            joined.mask_BT & rows_B[:, None],
            how=self.algorithm.loss_aggregation,
            max_completion_len=self.algorithm.max_completion_len,
        )
        return _TokenTensors(
            weight_BT=weight_BT.float().to(self.device),
            advantage_B=batch.advantage_B.to(self.device),
            rollout_BT=batch.rollout.logprobs_BT.to(self.device),
            old_BT=_moved(prepared.old_logprobs_BT, self.device),
            ref_BT=_moved(prepared.ref_logprobs_BT, self.device),
        )

    def _accumulate(
        self,
        joined: JoinedRows,
        micros: Sequence[MicroBatch],
        tokens: _TokenTensors,
        recorder: Recorder,
        cur_BT: Tensor | None,
    ) -> float:
        """Add up the gradient of one optimizer update; fill ``cur_BT`` with current log-probs if given."""
        total = torch.zeros((), device=self.device)
        for micro in micros:
            with recorder.span(Role.TRAINER, "train/plan"):
                inputs = self._inputs(joined, micro)
            with activations(self.knobs.recompute, self.offload) as recompute:
                with recorder.span(Role.TRAINER, "train/forward"):
                    cur_C = self._forward(self.model, inputs, recompute=recompute)
                    loss = self._loss(cur_C, inputs, tokens)
                with recorder.span(Role.TRAINER, "train/backward"):
                    loss.backward()
            total += loss.detach()
            if cur_BT is not None:
                cur_BT.view(-1)[inputs.flat_C] = cur_C.detach()
        return float(total)

    def _forward(self, model: Transformer, inputs: MicroInputs, *, recompute: bool | OffloadStep = False) -> Tensor:
        """Return float32 [C] log-probs of the completion tokens under the sampling temperature."""
        replays = self.knobs.router_replay and model is self.model
        routes = inputs.context.routes if replays else None  # the reference chooses for itself
        context = replace(inputs.context, moe_dispatch=self.knobs.moe_dispatch, routes=routes)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.knobs.train_dtype == "bf16"):
            hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, context, recompute=recompute)
            return token_logprobs(
                hidden_ND.index_select(0, inputs.predict_C),
                model.head_weight,
                inputs.target_C,
                temperature=self.algorithm.temperature,
                tile_tokens=self.knobs.head_tile_tokens,
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

    def _step(self) -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.algorithm.max_grad_norm))
        if not torch.isfinite(torch.tensor(norm)):
            self.optimizer.zero_grad()
            raise TrialError(
                explain(
                    "the gradient is not finite, so this update was not applied",
                    got=f"norm {norm}",
                    allowed="a finite norm",
                    hint=_what_is_not_finite(self.model),
                )
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm


def _check_finite(rollout: RolloutBatch) -> None:
    broken = int((~rollout.logprobs_BT.isfinite() & rollout.mask_BT).sum())
    if broken:
        raise TrialError(
            explain(
                "log-probs that the rollout recorded are not finite, so no correction can be made of them",
                got=f"{broken} of {int(rollout.lengths_B.sum())} tokens",
                allowed="finite log-probs",
                hint="the rollout's weights or its number format are broken; look at its mismatch with the trainer",
            )
        )


def _what_is_not_finite(model: Transformer) -> str:
    """Return where to look: at weights that were not finite before the update, or at what went into the loss."""
    broken = [name for name, param in model.named_parameters() if not bool(param.isfinite().all())]
    if broken:
        return f"the weights were not finite before it, `{broken[0]}` among {len(broken)}; start from weights that are"
    return "look for NaN in rewards or log-probs; lower `algorithm.lr` or train in fp32"


def _rows_mask(micros: Sequence[MicroBatch], num_rows: int) -> Tensor:
    """Return bool [B], True on the rows of one optimizer update."""
    mask_B = torch.zeros(num_rows, dtype=torch.bool)
    mask_B[[row for micro in micros for row in micro.rows]] = True
    return mask_B


def _moved(x_BT: Tensor | None, device: torch.device) -> Tensor | None:
    return None if x_BT is None else x_BT.to(device)
